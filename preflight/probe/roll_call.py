"""The roll-call before the first round: hosts with an agent, progress of the others, and hosts that are late. Pure."""

import statistics
from collections.abc import Sequence

from preflight.probe.lines import Gone, HostMessage
from preflight.probe.messages import Failed, Message, Noted, Ready, Running
from preflight.transport.types import Progress

START = 60.0  # seconds for connecting and for importing torch
_SHARE, _MOST = 1 / 3, 1 / 2  # of the run's time, where it is limited: the wait for late hosts
_SLOW = 3.0  # times the median of the others' imports: the progress shows such a host


class RollCall:
    """Messages of hosts since `begin`.

    Times are seconds of a monotonic clock. `until`: the time at which the run has to stop.
    """

    def __init__(self, hosts: Sequence[str], begin: float, until: float = float("inf")) -> None:
        self._hosts = tuple(hosts)
        self._begin = begin
        self._until = until
        self._noted: dict[str, float] = {}  # host → time of its note that it had waited for the remains of a probe
        self._running: dict[str, float] = {}  # host → start of its python
        self._took: list[float] = []  # seconds from the start of python to ready
        self.ready: dict[str, Ready] = {}
        self.gone: dict[str, tuple[str, str]] = {}  # host → (stage reached, why)
        self.unheard: dict[str, tuple[str, str]] = {}  # the same, for hosts that there was no time for
        self.busy: dict[str, str] = {}  # host → owner of the probe that it is busy with
        self.notes: list[str] = []  # for the user

    @property
    def waiting(self) -> list[str]:
        answered = self.ready.keys() | self.gone.keys() | self.unheard.keys() | self.busy.keys()
        return [host for host in self._hosts if host not in answered]

    def take(self, reply: HostMessage[Message], now: float) -> None:
        host = reply.host
        match reply.message:
            case Running():
                self._running.setdefault(host, now)
            case Noted(text=text):
                self._noted.setdefault(host, now)
                self.notes.append(f"{host}: {' '.join(text.split())}")
            case Ready() as ready if host not in self.gone:
                self.ready[host] = ready
                self._took.append(now - self._running.get(host, self._begin))
            case Failed(error=error, busy=True):
                self.busy.setdefault(host, error)
            case Failed(stage=stage, error=error):
                self.gone.setdefault(host, (stage, error))
            case Gone(why=why) if host not in self.busy:  # after it failed, or was ready, while others were waited for
                stage = "torch" if host in self.ready else self._stage(host)
                self.gone.setdefault(host, (stage, why))

    def over(self, now: float) -> bool:
        """Return whether the run no longer waits for any host.

        A run with limited time begins with the present hosts after a share of it. The share is larger while most hosts
        are late, since then the cause is not in a few of them.
        """
        waiting = self.waiting
        share = _SHARE if len(waiting) <= len(self.ready) else _MOST
        enough = bool(self.ready) and now - self._begin >= share * (self._until - self._begin)
        return enough or now >= self._until or all(now >= self._due(host) for host in waiting)

    def _due(self, host: str) -> float:
        """Return the time at which the host has taken too long.

        Before it imports torch, a host may have waited for the remains of a probe.
        """
        return self._noted.get(host, self._begin) + START

    def end(self, now: float) -> None:
        """Count hosts without an answer as gone if they have taken too long, else as unheard for lack of time."""
        for host in self.waiting:
            why = f"no agent started within {now - self._begin:.0f} s: the connection or the setup line takes too long"
            if host in self._running:
                why = f"Python has run for {now - self._running[host]:.0f} s and is still importing torch"
            late = self.gone if now >= self._due(host) else self.unheard
            late[host] = (self._stage(host), why)

    def _stage(self, host: str) -> str:
        return "python" if host in self._running else "none"

    def progress(self, now: float) -> Progress:
        """Return the progress.

        It shows a host with a far longer import of torch than others, else one without a running Python, else any.
        """
        waiting = self.waiting
        importing = {host: now - self._running[host] for host in waiting if host in self._running}
        longest = max(importing, key=importing.__getitem__, default="")
        usual = statistics.median(self._took) if self._took else float("inf")
        if longest and importing[longest] > _SLOW * usual:
            host, step = longest, f"torch, {importing[longest] / max(usual, 0.1):.0f} times as long as other hosts"
        else:
            host = next((host for host in waiting if host not in self._running), waiting[0] if waiting else "")
            step = "torch" if host in self._running else "python"
        return Progress(
            done=len(self.ready),
            total=len(self._hosts),
            failed=len(self.gone),
            slowest=host,
            seconds=now - self._running.get(host, self._begin),
            waiting_for=step,
            phase="agents",
        )
