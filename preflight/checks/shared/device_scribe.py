"""The writer of findings and changes of one device."""

from dataclasses import dataclass
from typing import Any

from preflight.checks.engine.registry import Scribe
from preflight.model.change import Area, Change, Kind
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome


@dataclass(frozen=True)
class DeviceScribe:
    """The writer of one check's findings about one device of a host. Each begins with host and device."""

    scribe: Scribe
    host: str
    index: int

    def finding(self, outcome: Outcome, summary: str, **details: Any) -> Finding:
        text = f"{self.host}: device {self.index}: {summary}"
        return self.scribe.finding(outcome, text, host=self.host, device=self.index, **details)

    def bad(self, summary: str, **details: Any) -> Finding:
        """Return a finding of the check's own severity."""
        return self.finding(self.scribe.check.severity, summary, **details)

    def warn(self, summary: str, **details: Any) -> Finding:
        return self.finding(Outcome.WARN, summary, **details)

    def unknown(self, summary: str, **details: Any) -> Finding:
        return self.finding(Outcome.UNKNOWN, summary, **details)

    def on(self, command: str) -> str:
        """Return the command as typed on this machine, for the device's host."""
        return self.scribe.on(self.host, command)

    def change(self, kind: Kind, before: str | None, after: object) -> Change:
        """Return a change of one setting.

        It is safe, since the plan does not touch a device that a job uses."""
        return Change(self.host, Area.ADDRESSES, kind, str(self.index), before, str(after), self.scribe.check.id)
