"""A lab host whose python3 answers with something else, or prints more than it is asked for."""

import json
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.tools import replaced

pytestmark = pytest.mark.lab

PYTHON = "/usr/bin/python3"
SITE = "/usr/lib/python3/dist-packages/noise.pth"  # lines of it that begin with import are run


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Two hosts on which `check` finds nothing to change."""
    lab = make_lab(hosts=2, devices=2, firewall="none")
    lab.configure_devices()
    preflight("configure", "-i", lab.inventory, "-y", check=False)
    return lab


def check(lab: LabHandle) -> tuple[dict[str, Any], str]:
    """The report of `check`, and the last line of its text."""
    words = ("check", "-i", lab.inventory, "--no-probe")
    text = preflight(*words, check=False).stdout.strip().splitlines()
    return json.loads(preflight(*words, "-o", "json", check=False).stdout), text[-1]


ANSWERS = {
    "one word": ("cat >/dev/null; echo quack", "last output: 'quack'"),
    "binary": ("cat >/dev/null; head -c 3000 /dev/urandom", "no answer"),
    "without an end": ("exec cat /dev/zero", "the host sent more than 8388608 bytes, but no answer"),
    "a failure": ("echo no license >&2; exit 3", "last output: 'no license'"),
}


@pytest.mark.parametrize(("script", "says"), ANSWERS.values(), ids=ANSWERS.keys())
def test_a_python_that_gives_no_answer_is_what_is_to_be_corrected_next(lab: LabHandle, script: str, says: str) -> None:
    with replaced(lab, "node02", PYTHON, script):
        report, last = check(lab)
    assert last == (
        "next: repair python3 on node02, which must run programs and print nothing else, "
        f"then run: preflight check --inventory {lab.inventory}"
    )
    (reached,) = [it for it in report["findings"] if (it["check"], it["host"]) == ("HST101", "node02")]
    assert reached["outcome"] == "unknown"
    assert says in reached["summary"]
    assert not [it for it in report["findings"] if it["outcome"] == "fail"]


def test_what_python_prints_before_and_after_its_answer_is_a_warning(lab: LabHandle) -> None:
    noise = "import atexit; print('Licensed to: me'); atexit.register(print, 'bye')"
    assert lab.ssh("node02", f'test ! -e {SITE} && echo "{noise}" >{SITE}').returncode == 0
    try:
        report, _ = check(lab)
    finally:
        lab.ssh("node02", f"rm {SITE}")
    told = [(it["host"], it["outcome"], it["summary"]) for it in report["findings"] if it["check"] == "HST101"]
    summary = "node02: the login shell or python3 prints unexpected output: 'Licensed to: me'"
    assert told == [("node02", "warn", summary)]
    assert not [it for it in report["findings"] if it["outcome"] in ("fail", "unknown")]
