"""One run of HCCL Test over the cluster: who took part, how it was started, what it said."""

from dataclasses import dataclass

from preflight.facts.parsers.ascend.hccl_test import HcclTest
from preflight.facts.types import Missing
from preflight.model.measure import Member


@dataclass(frozen=True)
class HcclTestRun:
    """`command`: a line for a shell that does the same; empty where it did not come that far. `dtype`, `operation`: as
    HCCL Test spells them. `members`: by rank. `exit` None: it was stopped after `seconds`. `sizes`: in bytes, for which
    its table has to have a row, in this order; empty where it did not come that far."""

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
        """Whether the table is another one than was asked for, so that no row of it is believed."""
        sizes = tuple(row.size for row in self.said.rows) if isinstance(self.said, HcclTest) else ()
        return bool(self.sizes) and sizes != tuple(self.sizes[: len(sizes)])
