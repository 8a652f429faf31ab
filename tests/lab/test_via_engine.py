"""Commands that reach hosts by the site's engine, where no ssh listens: `--via slurm` and `--via mpi`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import preflight
from tests.lab.engine_sites import Site, site, wait_until

__all__ = ("site",)  # a fixture

pytestmark = pytest.mark.lab


def run(site: Site, *command: str | Path, settings: str = "") -> tuple[int, str]:
    """Run a command by the engine. Return its exit code, and what it printed."""
    where = ("--via", site.via, "--inventory", site.inventory(settings))
    done = preflight(*command, *where, check=False, env=site.environment)
    return done.returncode, done.stdout + done.stderr


def report(site: Site, *command: str) -> dict[str, Any]:
    where = ("--via", site.via, "--inventory", site.inventory())
    done = preflight(*command, *where, "-o", "json", check=False, env=site.environment)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def reserved(site: Site) -> set[str]:
    return {site.lab.ssh(host, "sysctl -n net.ipv4.ip_local_reserved_ports").stdout.strip() for host in ALL}


ALL = ("node01", "node02")


def forget(site: Site) -> None:
    """Make the reserved ports of both hosts a change that is due."""
    for host in ALL:
        site.lab.ssh(host, "rm -f /etc/sysctl.d/90-preflight.conf; sysctl -qw net.ipv4.ip_local_reserved_ports=")


def test_a_whole_check_needs_no_ssh(site: Site) -> None:
    document = report(site, "check", "--idle")
    assert document["left_out"] == []
    assert {test["outcome"] for test in document["tests"]} == {"pass"}
    assert not [it for it in document["findings"] if it["check"] in ("HST101", "PNG101", "PRB101")]
    wait_until(site.nothing_left, "all to be gone")


def test_facts_and_a_capture(site: Site, tmp_path: Path) -> None:
    document = json.loads(run(site, "facts", "-o", "json")[1])
    assert sorted(document["hosts"]) == list(ALL)
    captured = tmp_path / "capture.json"
    code, text = run(site, "capture", "--out", captured)
    assert (code, captured.exists()) == (0, True), text


def test_changes_are_made_and_taken_back(site: Site) -> None:
    forget(site)
    document = report(site, "configure-ports", "-y")
    assert reserved(site) == {"29500,60000-60031"}
    code, text = run(site, "rollback", document["run"], "-y")
    assert code == 0, text
    assert reserved(site) == {""}
    site.lab.configure_devices()


def test_a_plan_is_made_and_applied(site: Site, tmp_path: Path) -> None:
    forget(site)
    plan = tmp_path / "plan.json"
    code, text = run(site, "plan", "--area", "ports", "--out", plan)
    assert (code, plan.exists()) == (0, True), text
    code, text = run(site, "apply", plan, "-y")
    assert code == 0, text
    assert reserved(site) == {"29500,60000-60031"}


def test_a_node_that_hangs_is_named_and_the_other_is_complete(site: Site) -> None:
    """Its relay is stopped before the check asks it anything."""
    stop = "sleep 0.1; while ! pkill -STOP -f '[p]ython3 -I -c'; do sleep 0.05; done"
    site.lab.ssh("node02", f'setsid sh -c "{stop}" > /dev/null 2>&1 &')
    try:
        document = report(site, "check", "--no-probe", "--only", "HST")
    finally:
        site.lab.ssh("node02", "pkill -CONT -f '[p]ython3 -I -c'")
    failures = {(it["host"], it["check"]) for it in document["findings"] if it["outcome"] == "fail"}
    assert ("node02", "HST101") in failures
    assert ("node01", "HST101") not in failures
    wait_until(site.nothing_left, "all to be gone")


def test_a_node_that_dies_in_the_middle_is_named(site: Site) -> None:
    with site.begin("check", "--idle") as check:
        site.lab.ssh("node02", "pkill -KILL -f '[p]ython3 -I -c'")
        document = json.loads(check.communicate()[0])
    assert document["exit"] == 1
    assert {culprit["members"][0].partition("/")[0] for culprit in document["culprits"]} == {"node02"}
    wait_until(site.nothing_left, "all to be gone")
