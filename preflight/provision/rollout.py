"""Order in which hosts are changed, and the rule when to stop. Pure."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from preflight.model.change import StepResult, StepState

WELL = (StepState.DONE, StepState.ALREADY)
_ASKS_FOR_A_CANARY = 16  # hosts; from this number on, one goes first by default


@dataclass(frozen=True)
class Batch:
    """Number of hosts that are changed at a time: a share of them, or a number."""

    share: float | None = 1.0  # 0 < share <= 1
    hosts: int = 0

    @classmethod
    def parse(cls, text: str) -> "Batch":
        """Read `25%` or `16`. Raises ValueError with a sentence."""
        match = re.fullmatch(r"([0-9]{1,6})(%?)", text)
        number = int(match[1]) if match else 0
        if not match or number < 1 or (match[2] and number > 100):
            raise ValueError(f"{text!r} is neither a percentage such as 25% nor a number of hosts such as 16")
        return cls(number / 100) if match[2] else cls(None, number)

    def size(self, total: int) -> int:
        """Return the number of hosts in a batch, out of `total`; at least one."""
        return max(1, math.ceil(total * self.share) if self.share else self.hosts)


@dataclass(frozen=True)
class Rollout:
    """Order of a rollout: `canary` hosts first, then the other hosts, one batch after the other.

    Every canary has to succeed. `canary` None: one canary if there are many hosts. No batch is begun once more than
    `max_fail` hosts have failed.
    """

    canary: int | None = None
    batch: Batch = Batch()
    max_fail: int = 0

    def waves(self, hosts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the hosts wave by wave, in the order in which they are changed."""
        first = self.canaries(hosts)
        size = self.batch.size(len(hosts) - first)
        batches = [tuple(hosts[at : at + size]) for at in range(first, len(hosts), size)]
        return [tuple(hosts[:first]), *batches] if first else batches

    def canaries(self, hosts: Sequence[str]) -> int:
        """Return how many of `hosts` go first; none if no hosts would be left for the batches."""
        wanted = (1 if len(hosts) >= _ASKS_FOR_A_CANARY else 0) if self.canary is None else self.canary
        return wanted if wanted < len(hosts) else 0

    def stop(self, failed: Sequence[str], *, canaries: bool) -> str:
        """Return why no other host is begun after these have failed; empty to go on."""
        if failed and canaries:
            return f"the canary {failed[0]} failed"
        if len(failed) > self.max_fail:
            return f"{len(failed)} host{'s' if len(failed) > 1 else ''} failed (--max-fail {self.max_fail})"
        return ""


def failed_hosts(results: Iterable[StepResult]) -> list[str]:
    """Return the hosts with a change that did not succeed, in order."""
    return list(dict.fromkeys(result.change.host for result in results if result.state not in WELL))
