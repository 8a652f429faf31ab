"""Hosts whose python3 is an old one: every program that runs there, run by it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab


def old_pythons() -> list[str]:
    """Interpreters of 3.6 to 3.8 on PATH, or installed beside the one that runs the tests, that do start."""
    beside = Path(sys.base_prefix).parent
    found: list[str] = []
    for version in ("3.6", "3.7", "3.8"):
        places = [shutil.which(f"python{version}"), *map(str, beside.glob(f"*{version}*/bin/python{version}"))]
        found += [place for place in places if place and _starts(place)]
    return found


def _starts(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Two hosts whose `python3` is the oldest there is."""
    pythons = old_pythons()
    if not pythons:
        pytest.skip("no Python from 3.6 to 3.8 is installed here, on PATH or beside the one that runs the tests")
    made = make_lab(hosts=2, devices=2)
    for host in ("node01", "node02"):
        assert not made.ssh(host, f"ln -sf {pythons[0]} /usr/local/sbin/python3").stderr
        version = made.ssh(host, "python3 -c 'import sys; print(sys.version_info[:2] < (3, 9))'").stdout
        assert version == "True\n", "the hosts do not see it"
    return made


def test_an_old_python_looks_configures_and_takes_back(lab: LabHandle) -> None:
    inventory = ("--inventory", lab.inventory)
    hosts = json.loads(preflight("facts", *inventory, "-o", "json").stdout)["hosts"]
    sections = [(name, section) for host in hosts.values() for name, section in host.items()]
    assert {name for name, section in sections if "value" not in section} == set()
    preflight("configure", *inventory, "-y")
    assert "nothing to change" in preflight("configure", *inventory, "--dry-run", "--exit-code").stdout
    done = preflight("check", *inventory, "--no-probe", check=False)
    assert done.returncode in (0, 3), done.stdout
    check, run = (past["run"] for past in json.loads(preflight("history", "-o", "json").stdout)["runs"][:2])
    assert f"run {check} is of check, which changes nothing" in preflight("rollback", check, "-y", check=False).stderr
    assert re.search(r"\d+ changes made on 2 hosts", preflight("rollback", run, "-y").stdout)
    assert lab.ssh("node01", "cat /proc/sys/net/ipv4/ip_local_reserved_ports").stdout == "\n"
