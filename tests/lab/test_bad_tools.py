"""Vendor tools that misbehave on a lab host: each ends in a sentence where it was asked, and nowhere else."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from preflight.facts.answers.npu import CHIP_QUERIES
from preflight.facts.refusal import refused
from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.tools import replaced

pytestmark = pytest.mark.lab

HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
NPU_SMI = "/usr/local/bin/npu-smi"
REST = f'exec {HCCN_TOOL}.real "$@"'


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=1, devices=2, product="atlas-a2")


def facts(lab: LabHandle) -> dict[str, Any]:
    done = preflight("facts", "-i", lab.inventory, "-o", "json", check=False)
    assert done.returncode in (0, 3), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["hosts"]["node01"]
    return found


def device(found: dict[str, Any], section: str, index: int) -> dict[str, Any]:
    it: dict[str, Any] = found[section]["value"]["devices"][index]
    assert it["index"] == index
    return it


def errors(it: dict[str, Any]) -> set[str]:
    """The fields that could not be looked at; what the product does not have is none of them."""
    said = {name: found.get("error", "") for name, found in it.items() if isinstance(found, dict)}
    return {name for name, error in said.items() if error and not refused(error)}


ONE_QUERY = {
    "says something new": ('echo "fec mode: quantum"', "printed 'fec mode: quantum', which is not recognized"),
    "says nothing": ("exit 0", "hccn_tool printed nothing"),
    "says nothing and fails": ("exit 7", "hccn_tool printed nothing and exited with 7"),
    "fails with exit 0": ('echo "Command execute failed!" >&2', "Command execute failed!"),
    "prints binary": ("head -c 900 /dev/urandom | tr -d '\\n'; echo", "which is not recognized"),
    "prints 100 MB": ("head -c 100000000 /dev/zero", "hccn_tool printed more than 32 KiB"),
    "needs root": (
        'echo "permission denied: pls check this cmd run permission." >&2; exit 12',
        "permission denied: pls check this cmd run permission.",
    ),
    "is killed": ("kill -9 $$", "hccn_tool printed nothing and exited with -9"),
    "speaks Chinese": ('echo "FEC \\346\\250\\241\\345\\274\\217\\357\\274\\232rs"', "which is not recognized"),
    "is cut": ('printf "fec mode: rs FEC"', "hccn_tool printed 'fec mode: rs FEC', which is not recognized"),
}


@pytest.mark.parametrize(("script", "sentence"), ONE_QUERY.values(), ids=ONE_QUERY.keys())
def test_one_query_of_one_device_that_goes_wrong_says_so_and_all_else_stands(
    lab: LabHandle, script: str, sentence: str
) -> None:
    with replaced(lab, "node01", HCCN_TOOL, f'case "$2 $3" in "1 -fec") {script}; exit;; esac; {REST}'):
        found = facts(lab)
    assert sentence in device(found, "nic", 1)["fec"]["error"]
    assert errors(device(found, "nic", 1)) == {"fec"}
    assert (
        errors(device(found, "nic", 0)) == errors(device(found, "hccn", 0)) == errors(device(found, "hccn", 1)) == set()
    )
    assert not [name for name, section in found.items() if "error" in section]


def test_an_answer_with_crlf_and_with_a_bad_exit_code_is_read_by_its_words(lab: LabHandle) -> None:
    script = f"""case "$3" in -fec) printf 'fec mode: rs FEC mode\\r\\n'; exit 9;; esac; {REST}"""
    with replaced(lab, "node01", HCCN_TOOL, script):
        found = facts(lab)
    assert [device(found, "nic", index)["fec"] for index in (0, 1)] == [{"value": "rs", "error": ""}] * 2


def test_a_query_that_hangs_costs_ten_seconds_of_its_device(lab: LabHandle) -> None:
    started = time.monotonic()
    with replaced(lab, "node01", HCCN_TOOL, f'case "$2 $3" in "1 -optical") sleep 99; esac; {REST}'):
        found = facts(lab)
    assert time.monotonic() - started < 30
    assert device(found, "nic", 1)["optics"]["error"] == "hccn_tool -i 1 -optical did not finish in time"
    assert errors(device(found, "nic", 1)) == {"optics"}
    assert errors(device(found, "nic", 0)) == set()


@pytest.fixture(params=["is a directory", "is missing", "does not start", "needs root"])
def both_tools(lab: LabHandle, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Both tools in a bad way; what is said of each."""
    script = {"is a directory": "", "needs root": 'echo "permission denied" >&2; exit 12'}.get(request.param, "exit 0")
    with ExitStack() as stack:
        for path in (HCCN_TOOL, NPU_SMI):
            stack.enter_context(replaced(lab, "node01", path, script))
            if request.param == "is missing":
                lab.ssh("node01", f"rm {path}")
            if request.param == "does not start":
                lab.ssh("node01", f"printf 'MZ no program of this system' >{path}")
        missing = "is not installed, or not on PATH"
        yield {
            "is a directory": (f"hccn_tool {missing}", f"npu-smi {missing}"),
            "is missing": (f"hccn_tool {missing}", f"npu-smi {missing}"),
            "does not start": ("does not start: Exec format error", "does not start: Exec format error"),
            "needs root": ("permission denied", "permission denied"),
        }[request.param]


def test_tools_that_are_no_tools_leave_their_own_sections_without_a_value(
    lab: LabHandle, both_tools: tuple[str, str]
) -> None:
    found = facts(lab)
    for section in ("hccn", "nic"):
        said = found[section].get("error") or device(found, section, 0)["link" if section == "hccn" else "fec"]["error"]
        assert both_tools[0] in said
    for section in ("npu_smi", "chips"):
        assert both_tools[1] in found[section]["error"]
    others = set(found) - {"hccn", "nic", "npu_smi", "chips"}
    assert not [name for name in others if "error" in found[name]]


def test_one_chip_of_which_npu_smi_says_nonsense_leaves_the_others(lab: LabHandle) -> None:
    script = f'case "$*" in *"-t health -i 1 -c 0") echo nonsense; exit;; esac; exec {NPU_SMI}.real "$@"'
    with replaced(lab, "node01", NPU_SMI, script):
        found = facts(lab)
    first, second = found["chips"]["value"]["chips"]
    assert "'nonsense'" in second["health"]["error"]
    assert errors(second) == {"health", "superpod"}  # which nobody asks an Atlas A2 for
    assert errors(first) == {"superpod"}
    assert {query.field for query in CHIP_QUERIES.values()} <= set(first)
