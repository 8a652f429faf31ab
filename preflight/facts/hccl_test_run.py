"""One run of HCCL Test over the cluster: members, command and output."""

from dataclasses import dataclass

from preflight.facts.parsers.ascend.hccl_test import HcclTest
from preflight.facts.types import Missing
from preflight.model.measure import Member


@dataclass(frozen=True)
class HcclTestRun:
    """One run of HCCL Test. `command` and `sizes` are empty if the run failed before its start.

    `command`: a line for a shell that repeats the run. `dtype`, `operation`: as HCCL Test spells them. `members`: by
    rank. `exit` None: the run was stopped after `seconds`. `sizes`: in bytes; its table must have a row for each, in
    this order.
    """

    members: tuple[Member, ...]
    said: HcclTest | Missing
    command: str = ""
    dtype: str = "fp32"
    operation: str = "sum"
    exit: int | None = 0
    seconds: float = 0.0
    sizes: tuple[int, ...] = ()

    @property
    def strange_rows(self) -> bool:
        """True if the table is not for the requested sizes, so that no row of it is trusted."""
        sizes = tuple(row.size for row in self.said.rows) if isinstance(self.said, HcclTest) else ()
        return bool(self.sizes) and sizes != tuple(self.sizes[: len(sizes)])
