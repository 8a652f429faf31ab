"""docs/real-output.md says the truth: what each check of NPUs rests on, and what that was held against."""

from preflight.checks.engine.registry import all_checks
from preflight.facts.parsers.registry import PARSERS
from tests.real_output import OF_NPUS, captures, data

TOOLS = (
    "hccn_tool.",
    "npu-smi.",
    "nvidia-smi.",
    "kernel-log.",
    "fabricmanager.",
    "ib",
    "infiniband.",
    "rdma.",
    "show_gids",
)
NOT_OF_A_TOOL = {"VER103", "VER104", "VER105", "VER107", "VER111"}  # packages and interpreters: run for real in the lab


def test_every_check_of_npus_says_what_it_rests_on() -> None:
    of_npus = {id_ for id_, check in all_checks().items() if OF_NPUS & set(check.needs)}
    assert set(data()["checks"]) == of_npus - NOT_OF_A_TOOL
    assert {parser for parsers in data()["checks"].values() for parser in parsers} <= set(PARSERS)


def test_every_parser_of_a_vendors_tool_has_a_capture_or_says_why_not() -> None:
    of_tools = {parser for parser in PARSERS if parser.startswith(TOOLS)}
    assert set(data()["without_capture"]) == of_tools - set(captures())
