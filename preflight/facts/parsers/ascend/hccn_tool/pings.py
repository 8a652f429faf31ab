"""Pings between device NICs: `-ping`, and `-hccs_ping` inside a super-pod (A3)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from preflight.facts.parsers.ascend.hccn_tool.tool_output import failure, lines, not_understood, too_long
from preflight.model.text import quote


@dataclass(frozen=True)
class PingResult:
    """Result of `-ping -g`. `milliseconds`: median of the replies. `error`: not tried, or not understood."""

    sent: int = 0
    received: int = 0
    milliseconds: float | None = None
    error: str = ""


@dataclass(frozen=True)
class HccsPingResult(PingResult):
    """Result of `-hccs_ping -g`. `plane_faults`: replies with another `L1 plane check result` than 0."""

    plane_faults: int = 0


@dataclass
class _PingRun:
    """The lines of one ping so far."""

    times: dict[str, float] = field(default_factory=dict)  # milliseconds, by sequence number
    lost: int = 0
    plane_faults: int = 0
    error: str = ""
    sent: int = 0
    received: int = 0
    complete: bool = False  # with a summary

    @property
    def begun(self) -> bool:
        return bool(self.times or self.lost or self.error)

    @property
    def successful(self) -> bool:
        return self.sent == self.received and not self.error

    def read(self, line: str) -> bool:
        """Read a line about one packet. Return whether it is one."""
        if match := _REPLY.fullmatch(line):
            sequence, time, unit, plane = match.groups()
            self.reply(sequence, float(time) / (1000 if unit == "us" else 1), plane)
        elif any(message in line for message in _LOST):
            self.lost += 1
        elif _TOO_LONG in line:
            self.error = self.error or quote(line)
        else:
            return False
        return True

    def reply(self, sequence: str, milliseconds: float, plane: str | None) -> None:
        if sequence in self.times:
            self.error = (
                self.error
                or f"hccn_tool printed two replies with seq={sequence} for one ping. "
                "The output of two pings may be mixed"
            )
        self.times[sequence] = milliseconds
        self.plane_faults += plane is not None and int(plane, 16) != 0

    def summed_up(self, sent: int, received: int) -> None:
        self.sent, self.received, self.complete = sent, received, True
        if received > sent or len(self.times) > received:
            self.error = self.error or f"hccn_tool counts {received} of {sent} replies and shows {len(self.times)}"

    def broken_off(self, why: str) -> None:
        """End without a summary. A lost packet stays lost, but replies alone do not prove that all of them came."""
        self.sent, self.received = len(self.times) + self.lost, len(self.times)
        if not self.lost:
            self.error = self.error or why

    @property
    def milliseconds(self) -> float | None:
        return round(median(self.times.values()), 6) if self.times else None


_SUMMARY = re.compile(r"(\d{1,9}) packets transmitted, ?(\d{1,9}) received, ?[\d.]{1,9}% packets? loss")
_HEADING = re.compile(r"device ?\d{1,3} PING \S{1,64}")
_REPLY = re.compile(
    r"recv seq ?=? ?(\w{1,9}), ?time ?= ?(\d{1,9}(?:\.\d{1,9})?) ?(ms|us)"
    r"(?:, ?L1 plane check result ?= ?(0x[0-9A-Fa-f]{1,16}))?"
)
_LOST = (
    "recv time out",
    "Destination Host Unreachable",
    "This pkt ping not start to send!",
    "This pkt send fail!",
    "This pkt check recv msg fail!",
)
_NO_SUMMARY = "hccn_tool's answer ends before the number of replies"
_TOO_LONG = "Message too long"  # longer than the device's own MTU: it was never sent


def _runs(text: str) -> Iterator[_PingRun]:
    run, last = _PingRun(), _PingRun()
    for line in lines(text):
        if run.read(line.text):
            continue
        if match := _SUMMARY.fullmatch(line.text):
            run.summed_up(int(match.group(1)), int(match.group(2)))
            yield run
            run, last = _PingRun(), run
        elif error := failure(line.text):
            if run.begun:
                run.broken_off(error)
                yield run
                run, last = _PingRun(), run
            elif last.successful:  # after a loss, the tool fails at the end
                yield _PingRun(error=error)
                last = _PingRun()
        elif run.begun and _HEADING.fullmatch(line.text):
            run.broken_off(_NO_SUMMARY)
            yield run
            run, last = _PingRun(), _PingRun()
    if run.begun:
        run.broken_off(_NO_SUMMARY)
        yield run


def _read(text: str) -> list[_PingRun]:
    if error := too_long(text):
        return [_PingRun(error=error)]
    return list(_runs(text)) or [_PingRun(error=not_understood(text))]


def ping(text: str) -> tuple[PingResult, ...]:
    """Parse `-ping -g address A`: packets sent and received, median of the replies.

    The tool sends three packets. For a lost one it prints `recv time out seq=`, and at the end that it failed.
    """
    return tuple(
        PingResult(error=run.error) if run.error else PingResult(run.sent, run.received, run.milliseconds)
        for run in _read(text)
    )


def hccs_ping(text: str) -> tuple[HccsPingResult, ...]:
    """Parse `-hccs_ping -g address A`: as `-ping`, between dies of a super-pod. Known from the driver's source only.

    It prints "Cmd executed successfully!" and ends with 0 even if packets were lost, so its summary counts.
    """
    return tuple(
        HccsPingResult(error=run.error or _NO_SUMMARY)
        if run.error or not run.complete
        else HccsPingResult(run.sent, run.received, run.milliseconds, plane_faults=run.plane_faults)
        for run in _read(text)
    )
