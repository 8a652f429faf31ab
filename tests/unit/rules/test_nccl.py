"""How NCCL reads its variables, beyond the cases of tests/cases/checks."""

import pytest

from preflight.model.outcome import Outcome
from preflight.rules.variables.nccl import NUMBERS, by_sockets, exactly, hcas, meaning, more_than_meant, number, unequal
from tests.unit.checks.test_checks import look
from tests.unit.healthy import scene

JUNK = ["", " ", "\x1b[2J", "0x", "-", "1e3", "٣", "9" * 4000, "::", ",,,", "=", "^", "^=", "a" * 9999, "\0", "\r"]
DEVICES = ("mlx5_0", "mlx5_1", "mlx5_10", "rocep1s0f1")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", 1),
        (" -2", -2),
        ("0x1F", 31),
        ("010", 8),
        ("08", 0),
        ("true", None),
        ("1 ", None),
        ("", None),
        ("9z", None),
    ],
)
def test_numbers_are_read_as_c_reads_them(value: str, expected: int | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ("", DEVICES),
        ("mlx5_1", ("mlx5_1", "mlx5_10")),
        ("=mlx5_1", ("mlx5_1",)),
        ("=mlx5_1:1,rocep1s0f1:1", ("mlx5_1", "rocep1s0f1")),
        ("^mlx5_1", ("mlx5_0", "rocep1s0f1")),
        ("^=mlx5_1", ("mlx5_0", "mlx5_10", "rocep1s0f1")),
        ("^=mlx5_1:2", DEVICES),
        ("=mlx5", ()),
        ("bond", ()),
        ("mlx5_0:1:rail0", ("mlx5_0",)),
    ],
)
def test_nccl_ib_hca_is_beginnings_names_and_all_others(patterns: str, found: tuple[str, ...]) -> None:
    assert hcas(patterns, DEVICES) == found


def test_what_is_named_beside_a_beginning_is_meant() -> None:
    assert more_than_meant("mlx5_1", DEVICES) == ("mlx5_1", ("mlx5_10",))
    assert more_than_meant("^mlx5_1", DEVICES) == ("mlx5_1", ("mlx5_10",))
    for patterns in ("mlx5_1,mlx5_10", "=mlx5_1", "mlx5", ""):
        assert more_than_meant(patterns, DEVICES) is None
    assert (exactly("mlx5_1"), exactly("^mlx5_1")) == ("=mlx5_1", "^=mlx5_1")


def test_what_keeps_nccl_on_sockets() -> None:
    assert by_sockets({"NCCL_NET": "Socket"}) == "NCCL_NET"
    assert by_sockets({"NCCL_IB_DISABLE": "1", "NCCL_NET": "IB"}) == "NCCL_IB_DISABLE"
    assert by_sockets({"NCCL_IB_DISABLE": "true"}) == by_sockets({}) == ""


def test_of_unequal_variables_those_count_that_ranks_have_to_agree_on() -> None:
    assert unequal("NCCL_ALGO", "", "tree") is Outcome.FAIL
    assert unequal("NCCL_NET", "ib", "socket") is Outcome.FAIL
    assert unequal("NCCL_NET", "ib", "") is Outcome.WARN
    assert unequal("TORCH_NCCL_BLOCKING_WAIT") is Outcome.WARN
    for own in ("NCCL_IB_HCA", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_TOPO_FILE", "MASTER_PORT", "GLOO_SOCKET_IFNAME"):
        assert unequal(own) is None
    assert meaning("NCCL_BUFFSIZE", None) == meaning("NCCL_BUFFSIZE", "0x400000")
    assert meaning("NCCL_NET", "IB") == meaning("NCCL_NET", "ib")


@pytest.mark.parametrize("junk", JUNK)
def test_nonsense_in_the_environment_crashes_no_check(junk: str) -> None:
    names = (*NUMBERS, "NCCL_NET", "NCCL_IB_HCA", "NCCL_SOCKET_FAMILY", "NCCL_DEBUG_FILE", "CUDA_VISIBLE_DEVICES",
             "NCCL_CONF_FILE", "TORCH_NCCL_BLOCKING_WAIT", "NCCL_COMM_ID", "NCCL_ALGO")  # fmt: skip
    told = {"variables": dict.fromkeys(names, junk), "rdma": {"devices": ["mlx5_0", junk]}}
    case = scene({"cluster": {"product": "nvidia", "firewall": "leave"}, "facts": {"node02": {"job": told}}})
    assert [finding.summary for finding in look(case) if "crashed" in finding.summary] == []
