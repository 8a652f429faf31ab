"""The rules by which NCCL, gloo and Open MPI choose a host NIC, beyond the cases of tests/cases/checks; gloo's is held
against torch itself."""

import json
import subprocess
import sys
from typing import Any

import pytest

from preflight.facts.sections.job import Mpi, Parameter
from preflight.facts.types import Interface, Network
from preflight.rules.nics.hccl_nic import NicChoice, NoNic
from preflight.rules.nics.library_nics import gloo, mpi, nccl, nccl_fits
from tests.unit.checks.test_checks import look
from tests.unit.healthy import scene

JUNK = ["", "x", " ", "\x1b[2J", "^", "=", "^=", "^=,", ",,", "::", ":1", "/", "1/2/3", "10.0.0.0/99", "a" * 9999, "\0"]


def network(*nics: tuple[str, str]) -> Network:
    """Interfaces that are up, in the kernel's order, with an address each ("": none)."""
    return Network(tuple(Interface(name, True, 1500, "", (a,) if a else ()) for name, a in nics), ())


HOST = network(
    ("lo", "127.0.0.1/8"), ("docker0", "172.17.0.1/16"), ("eth1", "10.2.0.1/24"), ("eth0", "10.1.0.1/24"), ("eth9", "")
)


@pytest.mark.parametrize(
    ("patterns", "fit", "do_not"),
    [
        ("eth1", ["eth1", "eth10"], ["eth2", "lo"]),
        ("=eth1", ["eth1"], ["eth10"]),
        ("^eth,lo", ["ib0"], ["eth0", "lo"]),
        ("^=eth1", ["eth10", "lo"], ["eth1"]),
        ("eth1:1,ib", ["eth1", "ib3"], ["bond0"]),
        ("eth1,:1", ["eth1"], ["bond0"]),
        ("^docker0", ["lo", "eth0"], ["docker0"]),
    ],
)
def test_nccl_takes_beginnings_whole_names_and_all_others(patterns: str, fit: list[str], do_not: list[str]) -> None:
    assert [nccl_fits(patterns, nic) for nic in (*fit, *do_not)] == [True] * len(fit) + [False] * len(do_not)


@pytest.mark.parametrize(
    ("variables", "nic"),
    [
        ({}, "eth1"),
        ({"NCCL_SOCKET_IFNAME": "eth0,eth1"}, "eth1"),  # the kernel's order counts, not the list's
        ({"NCCL_SOCKET_IFNAME": "=eth0"}, "eth0"),
        ({"NCCL_SOCKET_IFNAME": "^docker"}, "lo"),
        ({"NCCL_SOCKET_IFNAME": "e"}, "eth1"),  # too short, so none
    ],
)
def test_nccl_takes_the_first_that_fits_in_the_kernels_order(variables: dict[str, str], nic: str) -> None:
    chosen = nccl(variables, HOST)
    assert isinstance(chosen, NicChoice)
    assert chosen.nic == nic


def test_nccl_takes_infiniband_first_and_bridges_only_if_nothing_else_is_there() -> None:
    for nics, first in (
        ((("eth0", "10.1.0.1/24"), ("ib0", "10.2.0.1/24")), "ib0"),
        ((("virbr0", "192.168.122.1/24"), ("lo", "127.0.0.1/8"), ("docker0", "172.17.0.1/16")), "docker0"),
        ((("virbr0", "192.168.122.1/24"), ("lo", "127.0.0.1/8")), "lo"),
    ):
        chosen = nccl({}, network(*nics))
        assert isinstance(chosen, NicChoice)
        assert chosen.nic == first


def test_nccl_looks_for_the_family_that_it_is_told() -> None:
    both = Network((Interface("eth0", True, 1500, "", ("10.1.0.1/24", "fd00::1/64")),), ())
    chosen = nccl({"NCCL_SOCKET_FAMILY": "AF_INET6"}, both)
    assert isinstance(chosen, NicChoice)
    assert str(chosen.address) == "fd00::1/64"


def test_open_mpi_takes_whole_names_and_networks() -> None:
    for value, nic in (("eth0,lo", "eth0"), ("10.2.0.0/24", "eth1"), ("10.9.0.0/16,10.1.0.0/16", "eth0")):
        chosen = mpi(Mpi(parameters={"btl_tcp_if_include": Parameter(value, "OMPI_MCA_btl_tcp_if_include")}), HOST)
        assert isinstance(chosen, NicChoice)
        assert chosen.nic == nic
    assert isinstance(mpi(Mpi(parameters={"btl_tcp_if_include": Parameter("eth", "x")}), HOST), NoNic)
    assert mpi(Mpi(), HOST) is None


ASK_TORCH = """
import json, os, sys
from torch.distributed import ProcessGroupGloo, HashStore
import torch.distributed as dist
answers = {}
for value in json.loads(sys.argv[1]):
    os.environ["GLOO_SOCKET_IFNAME"] = value
    try:
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        dist.destroy_process_group()
        answers[value] = ""
    except RuntimeError as error:
        answers[value] = str(error)
print(json.dumps(answers))
"""


def test_gloo_finds_the_interfaces_that_torch_finds_and_says_what_torch_says() -> None:
    values = ["lo", "lo,lo", "lo,", "lo,eth9z", "^docker", "=lo", "l", "lo9z"]
    asked = subprocess.run(
        [sys.executable, "-c", ASK_TORCH, json.dumps(values)], capture_output=True, text=True, check=True, timeout=120
    )
    answers = json.loads(asked.stdout.splitlines()[-1])
    assert list(answers) == values
    for value in values:
        chosen = gloo({"GLOO_SOCKET_IFNAME": value}, network(("lo", "127.0.0.1/8")), ())
        assert isinstance(chosen, NoNic) == bool(answers[value]), (value, answers[value])
        if isinstance(chosen, NoNic):
            assert answers[value].partition("Unable to find address for: ")[2].split()[0] in chosen.why


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("product", ["atlas-a2", "nvidia", "cpu"])
def test_nonsense_in_the_environment_crashes_no_check(junk: str, product: str) -> None:
    job: dict[str, Any] = {
        "variables": dict.fromkeys(["NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "GLOO_SOCKET_IFNAME"], junk),
        "mpi": {"parameters": {"btl_tcp_if_include": {"value": junk, "source": junk}}},
    }
    findings = look(scene({"cluster": {"product": product}, "facts": {"node02": {"job": job}}}))
    assert [finding.summary for finding in findings if "crashed" in finding.summary] == []
