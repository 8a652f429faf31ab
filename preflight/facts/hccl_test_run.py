"""One run of HCCL Test over the cluster: who took part, how it was started, what it said."""

from dataclasses import dataclass

from preflight.facts.hccl_test import HcclTest
from preflight.facts.types import Missing
from preflight.model.measure import Member


@dataclass(frozen=True)
class HcclTestRun:
    """`command`: a line for a shell that does the same; empty where it did not come that far. `dtype`, `operation`: as
    HCCL Test spells them. `members`: by rank. `exit` None: it was stopped after `seconds`."""

    members: tuple[Member, ...]
    said: HcclTest | Missing
    command: str = ""
    dtype: str = "fp32"
    operation: str = "sum"
    exit: int | None = 0
    seconds: float = 0.0
