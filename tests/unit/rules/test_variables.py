"""The rules about HCCL's variables, and the host NIC that it chooses, beyond the cases of tests/cases/checks."""

import dataclasses

import pytest

from preflight.facts.types import Interface, Network
from preflight.model.cluster import Product
from preflight.model.outcome import Outcome
from preflight.rules.nics.hccl_nic import NicChoice, allowed, choose
from preflight.rules.variables.hccl import RULES, meant, rule
from tests.unit.checks.test_checks import look
from tests.unit.healthy import scene

NPU = [product for product in Product if product.is_npu]
JUNK = ["", " ", "\x1b[2J", "0x10", "-1", "1e3", "٣", "9" * 4000, "::", ",,,", "=", "^", "^=", "a" * 10000, "\0"]


@pytest.mark.parametrize("name", RULES)
def test_a_default_is_a_value_that_the_rule_allows(name: str) -> None:
    for allowed_ in RULES[name]:
        assert not allowed_.default or allowed_.allows(allowed_.default)


@pytest.mark.parametrize("name", RULES)
def test_a_variable_has_one_rule_a_product_at_most(name: str) -> None:
    for product in NPU:
        assert sum(product in one.products for one in RULES[name]) <= 1
    assert any(rule(name, product) for product in NPU)


@pytest.mark.parametrize("name", RULES)
def test_no_name_that_hccl_knows_is_called_a_slip_of_another(name: str) -> None:
    assert meant(name) is None
    assert meant(f"X{name}") is None, "only names that begin like HCCL's are guessed at"


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("product", NPU)
def test_nonsense_in_the_environment_crashes_no_check(junk: str, product: Product) -> None:
    names = [*RULES, "RANK_TABLE_FILE", "ASCEND_RT_VISIBLE_DEVICES", "ASCEND_HOME_PATH", "HCCL_XYZ", "CM_CHIEF_IP"]
    told = {"variables": dict.fromkeys(names, junk)}
    case = scene({"cluster": {"product": product.value}, "facts": {"node02": {"job": told}}})
    findings = look(case)
    assert [finding.summary for finding in findings if "crashed" in finding.summary] == []
    assert Outcome.FAIL in {finding.outcome for finding in findings if finding.check == "ENV104"}


@pytest.mark.parametrize(
    ("patterns", "fit", "do_not"),
    [
        ("eth", ["eth0", "eth12"], ["beth0", "lo"]),
        ("^eth", ["lo", "ens1"], ["eth0"]),
        ("=eth0", ["eth0"], ["eth01", "eth"]),
        ("^=eth0", ["eth01", "lo"], ["eth0"]),
        ("eth,ens", ["eth0", "ens5"], ["lo"]),
        ("=eth0,ens5", ["eth0", "ens5"], ["ens", "eth00"]),
        ("^docker,lo", ["eth0"], ["docker0", "lo"]),
        ("", [], ["eth0"]),
    ],
)
def test_hccl_socket_ifname_is_read_as_hccl_reads_it(patterns: str, fit: list[str], do_not: list[str]) -> None:
    assert [nic for nic in fit if allowed(patterns, nic) is None] == []
    assert [nic for nic in do_not if allowed(patterns, nic) is not None] == []


def nic(name: str, *addresses: str) -> Interface:
    return Interface(name, True, 1500, "", addresses)


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (["lo", "docker0", "eth1", "eth0"], "eth0"),
        (["lo", "docker0"], "docker0"),
        (["lo"], "lo"),
        (["eth10", "eth2"], "eth10"),
    ],
)
def test_without_variables_the_first_by_name_is_taken_docker_and_loopback_last(there: list[str], chosen: str) -> None:
    network = Network(tuple(nic(name, f"10.0.0.{position}/24") for position, name in enumerate(there, 1)), ())
    choice = choose({}, network)
    assert isinstance(choice, NicChoice)
    assert choice.nic == chosen


def test_a_nic_that_is_down_or_whose_address_is_no_address_is_passed_over() -> None:
    down = dataclasses.replace(nic("eth0", "10.0.0.1/24"), up=False)
    network = Network((down, nic("eth1", "10.0.0.300/24"), nic("eth2", "10.0.0.3/24")), ())
    choice = choose({}, network)
    assert isinstance(choice, NicChoice)
    assert choice.nic == "eth2"
    assert "no interface" in str(choose({}, Network((down,), ())))
