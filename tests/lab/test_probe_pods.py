"""Pods of a Kubernetes job that prove each other: hosts of a lab in the place of pods, each with a network, a host name
and an address of its own. No Kubernetes is here; what it would tell the pods stands in their environment."""

import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab

pytestmark = pytest.mark.lab

TOKEN = "of-this-gang-and-no-other"
HOSTS = ("node01", "node02", "node03")
# What the CNI plugin of a node would have forgotten: pods reach the first one's port, and no other port of this one.
DROP = (
    'nft add table inet site; nft add chain inet site in "{ type filter hook input priority 0; }"; '
    "nft add rule inet site in iifname eth0 meta l4proto tcp ct state new tcp dport != 22 drop"
)
INVENTORY = f"""
[cluster]
name = "train"
product = "cpu"
devices = 1
[probe]
idle = true
python = "{sys.executable}"
step_deadline = 8
[[hosts]]
name = "train-[0-2]"
address = "train-[0-2].train"
"""


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    made = make_lab(hosts=3, devices=1, firewall="none")
    for host in HOSTS:
        made.ssh(host, f"mkdir -p /tmp/pod && cat > /tmp/pod/hosts.toml <<'END'\n{INVENTORY}\nEND")
    return made


@pytest.fixture
def names(lab: LabHandle) -> Iterator[str]:
    """A command that lets a host resolve what a headless service would resolve."""
    lines = "\n".join(f"{lab.addresses[host]} train-{index}.train" for index, host in enumerate(HOSTS))
    yield f"printf '%s\\n' {shlex.quote(lines)} >> /etc/hosts"
    for host in HOSTS:
        lab.ssh(host, "sed -i '/[.]train$/d' /etc/hosts")


def run(lab: LabHandle, before: str) -> dict[str, tuple[int, str]]:
    """The gang on all three hosts at once: host → exit code, termination message. `before`: a command on each."""
    running = {}
    for index, host in enumerate(HOSTS):
        words = {
            "PYTHONPATH": str(ROOT), "JOB_COMPLETION_INDEX": f"{index}", "PREFLIGHT_POD_IP": lab.addresses[host],
            "PREFLIGHT_NODE_NAME": host, "PREFLIGHT_POD_WAIT": "90", "PREFLIGHT_TERMINATION_LOG": "/tmp/pod/log",
        }  # fmt: skip
        options = "--via pods -i /tmp/pod/hosts.toml --quick --scope all,pair --sizes 8,1M"
        environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in words.items())
        command = (
            f"{before}; : > /tmp/pod/log; read -r PREFLIGHT_TOKEN; export PREFLIGHT_TOKEN; cd /tmp/pod; "
            f"{environment} {sys.executable} -m preflight probe {options}; echo $? > /tmp/pod/code"
        )
        running[host] = subprocess.Popen(
            lab.ssh_command(host, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        stdin = running[host].stdin
        assert stdin
        print(TOKEN, file=stdin, flush=True)
    for host, pod in running.items():
        print(host, pod.communicate()[0])  # for who looks why
    ended = {host: lab.ssh(host, "cat /tmp/pod/code /tmp/pod/log").stdout for host in HOSTS}
    return {host: (int(said.partition("\n")[0]), said.partition("\n")[2]) for host, said in ended.items()}


def test_a_healthy_gang_begins_though_names_are_known_late(lab: LabHandle, names: str) -> None:
    ended = run(lab, f"(sleep 3; {names}) & true")
    assert {code for code, _ in ended.values()} == {0}, ended


def test_the_pod_that_nobody_reaches_is_named_with_its_node(lab: LabHandle, names: str) -> None:
    lab.ssh("node03", DROP)
    try:
        ended = run(lab, names)
    finally:
        lab.ssh("node03", "nft delete table inet site")
    assert [ended[host][0] for host in HOSTS] == [44, 44, 42], ended
    assert ended["node03"][1].startswith("preflight: train-2 on node node03 is broken: ")
    assert all("is not at fault. Broken: train-2 on node node03" in ended[host][1] for host in HOSTS[:2])


def test_a_pod_without_torch_is_named(lab: LabHandle, names: str) -> None:
    lab.ssh("node01", "sed -i 's,^python.*,python = \"/tmp/pod/python\",' /tmp/pod/hosts.toml")
    for host, python in zip(HOSTS, (sys.executable, "/usr/bin/python3", sys.executable), strict=True):
        lab.ssh(host, f"printf '#!/bin/sh\\nexec {python} \"$@\"\\n' > /tmp/pod/python; chmod +x /tmp/pod/python")
    ended = run(lab, names)
    assert {code for code, _ in ended.values()} == {43}, ended  # which is the image's fault, and not the host's
    assert all("train-1: the only rank failed while importing torch" in said for _, said in ended.values())
    assert all("No module named 'torch'" in said for _, said in ended.values())
