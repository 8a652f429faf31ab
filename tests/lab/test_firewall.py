"""Every firewall that is known, for real: found closed, opened for both families, open to connections, taken back; and
no host that a rule cuts off stays so."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.parsers.linux.firewalld import PRIORITY
from preflight.inventory import load
from preflight.lab import kernel
from preflight.model.change import Area, Change, Kind, Plan, StepState
from preflight.provision.apply import Way, apply
from preflight.provision.host_run import HostRun
from preflight.provision.journal import RunJournal, require_directory
from preflight.provision.rollout import Rollout
from preflight.transport import Options, open_transport
from tests.lab.booted import lab_host
from tests.lab.conftest import LabHandle, MakeLab, preflight
from tests.lab.test_cut_off import Place

pytestmark = pytest.mark.lab

SIX = "fd00:5:5::/64"
NAMES = {
    "nftables": "inet filter input",
    "ufw": "ufw",
    "firewalld": "firewalld, zone public",
    "iptables": "iptables-nft, chain INPUT",
}
PORTS = (29500, 32768, 60999)
EVERYTHING = """\
find /etc/nftables.conf /etc/preflight /etc/ufw /etc/default/ufw /etc/firewalld /etc/iptables \
    -exec stat -c '%n %a %U' {} + -type f -exec sha256sum {} + 2>/dev/null | sort
nft list ruleset | sed 's/packets [0-9]* bytes [0-9]*//'
iptables-save 2>/dev/null | sed '/^#/d; s/\\[.*\\]//'
ip6tables-save 2>/dev/null | sed '/^#/d; s/\\[.*\\]//'
if [ -e /run/dbus/system_bus_socket ]; then firewall-cmd --list-all-zones; fi
"""


# What a container engine has beside each of the firewalls; nobody else may touch it.
DOCKER = """\
iptables -N DOCKER && iptables -A FORWARD -o docker0 -j DOCKER && iptables -t nat -N DOCKER
iptables -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
"""


def on(lab: LabHandle, host: str, command: str) -> str:
    done = lab.ssh(host, command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def comes_through(lab: LabHandle, source: str, address: str, port: int) -> bool:
    """Whether a connection from a host reaches another: accepted, or refused by the port, where nobody listens."""
    said = lab.ssh(source, f"timeout 1 bash -c '</dev/tcp/{address}/{port}'")
    return said.returncode == 0 or "Connection refused" in said.stderr


def report(command: str, inventory: Path, *arguments: str) -> dict[str, Any]:
    done = preflight(command, "--inventory", inventory, "-o", "json", *arguments, check=False)
    body: dict[str, Any] = json.loads(done.stdout)
    return body


def outcomes(body: dict[str, Any], check: str) -> dict[str, str]:
    return {finding["host"]: finding["outcome"] for finding in body["findings"] if finding["check"] == check}


@dataclass(frozen=True)
class Firewalled:
    """Two hosts with one kind of firewall, and IPv6 addresses beside the others."""

    kind: str
    lab: LabHandle
    inventory: Path
    sixes: dict[str, str]
    before: dict[str, str]
    runs: list[str]


@pytest.fixture(scope="module", params=list(NAMES))
def two(request: pytest.FixtureRequest, make_lab: MakeLab) -> Iterator[Firewalled]:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall=request.param)
    sixes = {}
    for number, host in enumerate(lab.addresses):
        sixes[host] = f"fd00:5:5::{11 + number}"
        interface = on(lab, host, "ip -o -4 address | awk '/198\\.18\\./ {print $2}'").strip()
        on(lab, host, f"ip address add {sixes[host]}/64 dev {interface} nodad")
        on(lab, host, DOCKER)
    inventory = lab.dir / "both.toml"
    inventory.write_text(re.sub(r'cidrs = \["(.*)"\]', rf'cidrs = ["\1", "{SIX}"]', lab.inventory.read_text()))
    before = {host: on(lab, host, EVERYTHING) for host in lab.addresses}
    yield Firewalled(request.param, lab, inventory, sixes, before, [])


# A story, for each of the firewalls: unprovisioned, opened, nothing left to do, taken back.


def test_an_unprovisioned_host_is_found_closed_by_the_name_of_its_firewall(two: Firewalled) -> None:
    body = report("check", two.inventory, "--only", "firewall")
    said = [finding for finding in body["findings"] if finding["check"] == "FWL101"]
    assert {finding["outcome"] for finding in said} == {"fail"}
    assert any(f"node01: the firewall ({NAMES[two.kind]}) blocks" in finding["summary"] for finding in said)
    assert outcomes(body, "FWL104") == {}, "one cause is told once"
    assert not comes_through(two.lab, "node02", two.lab.addresses["node01"], PORTS[0])
    assert not comes_through(two.lab, "node02", two.sixes["node01"], PORTS[0])


def test_it_is_opened_for_both_families_and_connections_show_it(two: Firewalled) -> None:
    body = report("configure-firewall", two.inventory, "-y")
    assert {change["state"] for change in body["changes"]} == {"done"}
    assert body["verdict"] == "pass", body["findings"]
    two.runs.append(body["run"])
    for port in PORTS:
        assert comes_through(two.lab, "node02", two.lab.addresses["node01"], port)
        assert comes_through(two.lab, "node01", two.sixes["node02"], port)
    assert not comes_through(two.lab, "node02", two.lab.addresses["node01"], 1024), "and nothing else"
    containers = [line for line in two.before["node01"].splitlines() if "DOCKER" in line or "172.17." in line]
    assert containers == [
        line for line in on(two.lab, "node01", EVERYTHING).splitlines() if "DOCKER" in line or "172.17." in line
    ]
    facts = json.loads(preflight("facts", "--inventory", two.inventory, "-o", "json").stdout)
    tries = facts["hosts"]["node01"]["arrivals"]["value"]["tries"]
    assert {(one["source"], one["port"], one["outcome"]) for one in tries} == {
        ("node02", port, "refused") for port in PORTS
    }


# Two networks, and two ranges of ports, which only a rich rule cannot have together.
OUR_RULES = {
    "nftables": ("nft list ruleset | grep -c preflight", 2),
    "ufw": ("ufw status | grep -c preflight", 2),
    "firewalld": (f"firewall-cmd --list-rich-rules | grep -c -e {PRIORITY}", 4),
    "iptables": ("(iptables -S; ip6tables -S) | grep -c preflight", 2),
}


def test_there_is_one_rule_a_network_and_each_is_tagged(two: Firewalled) -> None:
    command, count = OUR_RULES[two.kind]
    assert on(two.lab, "node01", command).strip() == str(count)


def test_again_there_is_nothing_to_do(two: Firewalled) -> None:
    now = on(two.lab, "node01", EVERYTHING)
    body = report("configure-firewall", two.inventory, "-y")
    assert (body["changes"], body["verdict"]) == ([], "pass")
    assert on(two.lab, "node01", EVERYTHING) == now


def test_taking_it_back_leaves_everything_as_it_was(two: Firewalled) -> None:
    back = preflight("rollback", *two.runs, "-y", "--inventory", two.inventory, check=False)
    assert back.returncode == 0, back.stdout + back.stderr
    assert {host: on(two.lab, host, EVERYTHING) for host in two.before} == two.before


# Rules of the site that carry our mark, live and for the next boot. preflight would never make them.
MARKED = {
    "nftables": """\
nft insert rule inet filter input ip saddr 10.66.0.0/16 tcp dport 9999 drop comment '"preflight"'
nft insert rule inet filter input tcp dport 9998 counter accept comment '"preflight"'
mkdir -p /etc/preflight && echo 'insert rule inet filter input tcp dport 9998 drop' > /etc/preflight/nftables.nft""",
    "ufw": """\
ufw prepend deny proto tcp from 10.66.0.0/16 to any port 9999 comment preflight
ufw allow proto udp from 10.66.0.0/16 to any port 9998 comment preflight
ufw limit 9997/tcp comment preflight""",
    "firewalld": "\n".join(
        f"firewall-cmd {when} --add-rich-rule='rule priority={PRIORITY} family=ipv4 source address=10.66.0.0/16 {rest}'"
        for when in ("", "--permanent")
        for rest in (
            "port port=9999 protocol=tcp drop",
            "port port=9998 protocol=tcp reject",
            "port port=9997 protocol=tcp log prefix=x accept",
            "service name=ftp accept",
        )
    ),
    "iptables": """\
iptables -I INPUT -s 10.66.0.0/16 -p tcp -m tcp --dport 9999 -m comment --comment preflight -j DROP
iptables -I INPUT -s 10.66.0.0/16 -p udp -m udp --dport 9998 -m comment --comment preflight -j ACCEPT
mkdir -p /etc/iptables && iptables-save > /etc/iptables/rules.v4""",
}


@pytest.mark.parametrize("kind", list(MARKED))
def test_rules_of_the_site_that_carry_our_mark_are_the_sites(make_lab: MakeLab, kind: str) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall=kind)
    on(lab, "node01", MARKED[kind])
    before = on(lab, "node01", EVERYTHING)
    marked = [line for line in before.splitlines() if re.search("999[789]|ftp", line)]
    assert len(marked) >= 2
    body = report("configure-firewall", lab.inventory, "-y")
    assert (body["verdict"], {change["state"] for change in body["changes"]}) == ("pass", {"done"})
    assert not any("999" in (change["before"] or "") for change in body["changes"] if change["kind"] != "file")
    now = on(lab, "node01", EVERYTHING).splitlines()
    assert sorted(line for line in now if line in marked) == sorted(marked), "firewalld lists rules in any order"
    assert "9998" in on(lab, "node01", "cat /etc/preflight/nftables.nft 2>/dev/null || echo 9998")
    assert report("configure-firewall", lab.inventory, "-y")["changes"] == []
    preflight("rollback", body["run"], "-y", "--inventory", lab.inventory)
    assert sorted(on(lab, "node01", EVERYTHING).splitlines()) == sorted(before.splitlines())


# Nobody is locked out. On these hosts only a rule of ours lets ssh in.

NET = "198.18.0.0/15"
ONLY_OURS = {
    "nftables": (
        f'nft insert rule inet filter input ip saddr {NET} tcp dport 22 accept comment \\"preflight\\"; '
        "nft delete rule inet filter input handle "
        "$(nft -a list chain inet filter input | sed -n 's/^[[:space:]]*tcp dport 22 accept # handle //p')",
        Kind.NFT_RULES,
        "inet filter input",
        f'ip saddr {NET} tcp dport 22 accept comment "preflight"',
    ),
    "ufw": (
        f"ufw prepend allow proto tcp from {NET} to any port 22 comment preflight; ufw delete allow 22/tcp",
        Kind.UFW_RULES,
        "ufw",
        f"allow tcp 22 from {NET}",
    ),
    "firewalld": (
        f"firewall-cmd --add-rich-rule='rule priority={PRIORITY} family=ipv4 source address={NET} port port=22 "
        "protocol=tcp accept'; firewall-cmd --remove-service=ssh",
        Kind.FIREWALLD_RULES,
        "public",
        f'rule priority="{PRIORITY}" family="ipv4" source address="{NET}" port port="22" protocol="tcp" accept',
    ),
    "iptables": (
        f"iptables -I INPUT -s {NET} -p tcp -m multiport --dports 22 -m comment --comment preflight -j ACCEPT; "
        "iptables -D INPUT -p tcp -m conntrack --ctstate NEW -m tcp --dport 22 -j ACCEPT",
        Kind.IPTABLES_RULES,
        "iptables-nft",
        f"-s {NET} -p tcp -m multiport --dports 22 -m comment --comment preflight -j ACCEPT",
    ),
}


def cut_off(
    lab: LabHandle, change: Change, meanwhile: Callable[[], object] = bool, after: str = "end"
) -> tuple[StepState, int]:
    """Return how the change ends that nobody can confirm, and how many times a login was tried in vain until then.

    `meanwhile`: called as soon as the host's journal has the event `after`.
    """
    require_directory()
    cluster = load(lab.inventory)
    states: list[StepState] = []
    run = f"cut-{time.time_ns()}"

    def carry_out() -> None:
        transport = open_transport(cluster, Options())
        try:
            way = Way(cluster.hosts, transport, confirm_seconds=3)
            states.append(apply(Plan((change,)), way, RunJournal(run), Rollout()).results[0].state)
        finally:
            transport.close()

    working = threading.Thread(target=carry_out)
    working.start()
    host = lab_host(lab, "node01")
    journal = host.root / f"var/lib/preflight/journal/{run}.jsonl"
    kernel.wait_until(lambda: journal.exists() and f'"{after}"' in journal.read_text(), 30, "nothing was changed")
    meanwhile()
    in_vain = 0
    while working.is_alive():
        try:
            socket.create_connection((lab.addresses["node01"], 22), timeout=0.3).close()
        except OSError:
            in_vain += 1
        working.join(0.05)
    return states[0], in_vain


@dataclass(frozen=True)
class OnlyOurs:
    """A host whose ssh is open by one rule of ours alone, and the change that takes it away."""

    lab: LabHandle
    change: Change


@pytest.fixture(scope="module", params=list(ONLY_OURS))
def only_ours(request: pytest.FixtureRequest, make_lab: MakeLab) -> OnlyOurs:
    prepare, change_kind, target, ours = ONLY_OURS[request.param]
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall=request.param)
    on(lab, "node01", prepare)
    return OnlyOurs(lab, Change("node01", Area.FIREWALL, change_kind, target, ours, None, "FWL103"))


# What another program puts there meanwhile: a rule of its own (of 203.0.113.9, or fail2ban's), and one in our form.
MEANWHILE = {
    "nftables": """\
nft insert rule inet filter input ip saddr 203.0.113.9 quota 25 mbytes drop
nft insert rule inet filter input ip saddr 10.66.0.0/16 tcp dport 9999 accept comment '"preflight"'""",
    "ufw": """\
ufw prepend deny from 203.0.113.9
ufw prepend allow proto tcp from 10.66.0.0/16 to any port 9999 comment preflight""",
    "firewalld": f"""\
firewall-cmd --add-rich-rule='rule family=ipv4 source address=203.0.113.9 reject'
firewall-cmd --add-rich-rule='rule priority="{PRIORITY}" family="ipv4" source address="10.66.0.0/16" \
    port port="9999" protocol="tcp" accept'""",
    "iptables": """\
iptables -N f2b-sshd
iptables -I INPUT -p tcp -m quota --quota 25000000 -j f2b-sshd
iptables -I INPUT -s 10.66.0.0/16 -p tcp -m multiport --dports 9999 -m comment --comment preflight -j ACCEPT""",
}
OTHERS = r"203\.0\.113\.9|f2b-sshd"
# In the place of a tool: it fails as often as the file `failures` has lines, where its command line matches.
FAILS = """\
mkdir -p /run/broken
cp -L {tool} /run/broken/real
cat > /run/broken/tool <<'END'
#!/bin/bash
case "$0 $*" in {calls})
    if [ -s /run/broken/failures ]; then
        sed -i 1d /run/broken/failures
        echo "{tool} is out of order" >&2
        exit 4
    fi ;;
esac
exec -a "$0" /run/broken/real "$@"
END
chmod +x /run/broken/tool
mount --bind /run/broken/tool "$(readlink -f {tool})"
"""


# Tools and those of their calls that fail; ufw has written its files when it calls iptables-restore.
BROKEN = {
    "nftables": [("/usr/sbin/nft", "*")],
    "ufw": [("/usr/sbin/ufw", "*"), ("/usr/sbin/iptables", "*restore*")],
    "firewalld": [("/usr/bin/firewall-cmd", "*")],
    "iptables": [("/usr/sbin/iptables", "*")],
}


def test_ssh_opens_again_whatever_fails_and_whatever_others_change_meanwhile(only_ours: OnlyOurs) -> None:
    lab, host = only_ours.lab, lab_host(only_ours.lab, "node01")
    for tool, calls in BROKEN[host.spec.firewall]:
        before = rules_in(on(lab, "node01", EVERYTHING))
        on(lab, "node01", FAILS.format(tool=tool, calls=calls))
        then = f"{MEANWHILE[host.spec.firewall]}\nprintf '\\n\\n\\n' > /run/broken/failures"
        state, in_vain = cut_off(lab, only_ours.change, partial(host.run, "bash", "-c", then))
        host.run("sh", "-c", f"umount $(readlink -f {tool})")
        assert state is StepState.REVERTED
        assert in_vain > 0, "the new rules did cut ssh"
        assert (host.root / "run/broken/failures").read_text() == "", "the tool did fail"
        now = rules_in(on(lab, "node01", EVERYTHING))
        added = [line for line in now if line not in before]
        assert [line for line in before if line not in now] == []
        assert all(re.search(OTHERS, line) for line in added), added
        assert re.search(OTHERS, "\n".join(now)), "the rule of the other program stays"


def rules_in(everything: str) -> list[str]:
    """Return the live rules of EVERYTHING, without its lines about files."""
    return [line for line in everything.splitlines() if not re.match(r"/etc/|[0-9a-f]{64} ", line)]


# In the place of nft: it changes the rules and does not end.
HANGS = """\
mkdir -p /run/broken
cp -L /usr/sbin/nft /run/broken/real
printf '#!/bin/sh\\n/run/broken/real "$@"\\ncase "$*" in -f*) touch /run/broken/changed; exec sleep 1000;; esac\\n' \
    > /run/broken/tool
chmod +x /run/broken/tool
mount --bind /run/broken/tool /usr/sbin/nft
"""


@pytest.mark.parametrize("only_ours", ["nftables"], indirect=True)
def test_ssh_opens_again_where_every_process_of_the_session_is_killed(only_ours: OnlyOurs) -> None:
    lab, host = only_ours.lab, lab_host(only_ours.lab, "node01")
    before = on(lab, "node01", EVERYTHING)
    on(lab, "node01", HANGS)

    def kill_all() -> None:
        kernel.wait_until((host.root / "run/broken/changed").exists, 20, "nft was not called")
        end_sessions(lab)
        host.run("umount", "/usr/sbin/nft")

    state, _ = cut_off(lab, only_ours.change, kill_all, after="begin")
    assert state is StepState.FAILED, "nothing is known of it here"
    kernel.wait_until(
        lambda: "dport 22" in host.run("nft", "list", "chain", "inet", "filter", "input"), 20, "still shut"
    )
    assert on(lab, "node01", EVERYTHING) == before
    assert "has been cleaned up" in recover(lab)  # the journal has a step without an end
    assert on(lab, "node01", EVERYTHING) == before


def recover(lab: LabHandle) -> str:
    """Have node01 put its last run in order, as the next command does; what it says of that."""
    cluster = load(lab.inventory)
    transport = open_transport(cluster, Options())
    try:
        return HostRun(cluster.hosts[0], transport, f"next-{time.time_ns()}").recover()
    finally:
        transport.close()


def end_sessions(lab: LabHandle) -> None:
    """Kill every process below the sshd of node01, and every other one of their sessions."""
    processes = {process.pid for process in kernel.processes_in([lab_host(lab, "node01").netns])}
    parents = {pid: int(stat_of(pid)[1]) for pid in processes}
    sessions = {pid: int(stat_of(pid)[3]) for pid in processes}
    listeners = {pid for pid in processes if b"listener" in Path(f"/proc/{pid}/cmdline").read_bytes()}
    assert listeners
    below: set[int] = set()
    while more := {pid for pid in processes if parents[pid] in listeners | below} - below:
        below |= more
    ended = below | {pid for pid in processes if sessions[pid] in {sessions[one] for one in below}}
    assert any(b"python" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below), "the program is among them"
    for pid in ended - listeners:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat behind the name: state, parent, group, session, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def test_a_change_that_cuts_ssh_is_taken_back_by_the_host_itself(only_ours: OnlyOurs) -> None:
    lab = only_ours.lab
    before = on(lab, "node01", EVERYTHING)
    state, in_vain = cut_off(lab, only_ours.change)
    assert state is StepState.REVERTED
    assert in_vain > 0, "the new rules did cut ssh"
    assert on(lab, "node01", EVERYTHING) == before
    # What configure makes of it lets the login in, though the rule that did so before is none of its own making.
    body = report("configure-firewall", lab.inventory, "-y")
    assert body["verdict"] == "pass", body["findings"]
    assert {change["state"] for change in body["changes"]} == {"done"}
    assert on(lab, "node01", "true") == ""
    assert report("configure-firewall", lab.inventory, "-y")["changes"] == []


@pytest.mark.parametrize("action", ["deny", "reject log", "limit"])
def test_what_ufw_would_skip_is_for_a_person_to_delete(make_lab: MakeLab, action: str) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="ufw")
    (cidr,) = load(lab.inventory).cidrs
    on(lab, "node01", f"ufw {action} proto tcp from {cidr} to any port 29500,32768:60999")
    before = on(lab, "node01", EVERYTHING)
    change = Change("node01", Area.FIREWALL, Kind.UFW_RULES, "ufw", None,
                    f"allow tcp 29500,32768:60999 from {cidr}", "FWL101")  # fmt: skip
    require_directory()
    transport = open_transport(load(lab.inventory), Options())
    try:
        way = Way(load(lab.inventory).hosts, transport)
        (result,) = apply(
            Plan((change,)), way, RunJournal(f"skip-{lab.dir.parent.name}-{action[:4]}"), Rollout()
        ).results
    finally:
        transport.close()
    assert result.state not in (StepState.DONE, StepState.ALREADY)
    assert "ufw has another rule like" in str(result)
    assert on(lab, "node01", EVERYTHING) == before
    said = report("configure-firewall", lab.inventory, "-y")["findings"]
    (told,) = (finding for finding in said if (finding["check"], finding["host"]) == ("FWL101", "node01"))
    (command,) = told["commands"]
    assert f"ufw delete {action} " in command
    on(lab, "node01", command[command.index("ufw delete") :])
    assert report("configure-firewall", lab.inventory, "-y")["verdict"] == "pass"


def test_a_policy_of_iptables_that_drops_even_the_connection_at_work_is_taken_back(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=1, devices=0, product="cpu", firewall="none")
    change = Change("node01", Area.FIREWALL, Kind.IPTABLES_INPUT, "iptables-nft", None, "-P INPUT DROP", "FWL101")
    state, in_vain = cut_off(lab, change)
    assert state is StepState.REVERTED
    assert in_vain > 0
    assert on(lab, "node01", "iptables -S INPUT").strip() == "-P INPUT ACCEPT"


# firewalld's own memory and its files: what an administrator does afterwards, and what a rollback leaves.

PERMANENT = "firewall-cmd --permanent --list-rich-rules"
THEIRS = """\
<?xml version="1.0" encoding="utf-8"?>
<zone>
  <!-- ours since 2019 --><short>Site</short>
  <service name="ssh"/>
  <port protocol="tcp" port="9100"/></zone>
"""
# How the host has its default zone: as firewalld brings it along, and in a file of the site.
ZONES = {
    "built-in": "true",
    "of the site": f"printf %s '{THEIRS}' > /etc/firewalld/zones/public.xml; "
    "chmod 640 /etc/firewalld/zones/public.xml; chown 12:34 /etc/firewalld/zones/public.xml; firewall-cmd --reload",
}


@pytest.fixture(params=list(ZONES))
def zoned(request: pytest.FixtureRequest, make_lab: MakeLab) -> LabHandle:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="firewalld")
    on(lab, "node01", ZONES[request.param])
    return lab


def test_what_an_administrator_makes_permanent_afterwards_keeps_our_rules(zoned: LabHandle) -> None:
    """firewalld writes a zone's file from its memory, so that it has to know our rules there, too."""
    done = report("configure-firewall", zoned.inventory, "-y")
    assert (done["verdict"], {change["state"] for change in done["changes"]}) == ("pass", {"done"})
    live = on(zoned, "node01", "firewall-cmd --list-rich-rules").splitlines()
    assert len(live) == 2
    assert sorted(on(zoned, "node01", PERMANENT).splitlines()) == sorted(live)
    on(zoned, "node01", "firewall-cmd --permanent --add-port=1234/tcp; firewall-cmd --reload")
    assert sorted(on(zoned, "node01", "firewall-cmd --list-rich-rules").splitlines()) == sorted(live)
    assert comes_through(zoned, "node02", zoned.addresses["node01"], 29500)
    assert report("configure-firewall", zoned.inventory, "-y")["changes"] == []
    # Only ours goes, and that as often as it is asked for: what the administrator did since stands in the file.
    for _ in range(2):
        back = preflight("rollback", done["run"], "-y", "--inventory", zoned.inventory, check=False)
        assert back.returncode == 0, back.stdout
        says = "only preflight's part of /etc/firewalld/zones/public.xml is undone"
        assert says in " ".join(back.stdout.split())
        assert on(zoned, "node01", f"firewall-cmd --list-rich-rules; {PERMANENT}").strip() == ""
        assert "1234/tcp" in on(zoned, "node01", "firewall-cmd --list-ports")
        assert "1234/tcp" in on(zoned, "node01", "firewall-cmd --permanent --list-ports; firewall-cmd --reload")
    assert not comes_through(zoned, "node02", zoned.addresses["node01"], 29500)


def test_after_a_rollback_firewalld_remembers_what_its_files_say(zoned: LabHandle) -> None:
    before, zone = (on(zoned, "node01", command) for command in (EVERYTHING, "firewall-cmd --permanent --list-all"))
    run = report("configure-firewall", zoned.inventory, "-y")["run"]
    preflight("rollback", run, "-y", "--inventory", zoned.inventory)
    assert on(zoned, "node01", EVERYTHING) == before
    assert on(zoned, "node01", "firewall-cmd --permanent --list-all") == zone
    on(zoned, "node01", "firewall-cmd --permanent --add-port=1234/tcp; firewall-cmd --reload")
    was, ports = zone.splitlines(), on(zoned, "node01", "firewall-cmd --permanent --list-all").splitlines()
    assert [line for line in ports if "ports:" not in line] == [line for line in was if "ports:" not in line]


def test_a_zone_file_that_firewalld_has_not_read_is_not_overwritten(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="firewalld")
    on(lab, "node01", f"printf %s '{THEIRS}' > /etc/firewalld/zones/public.xml")
    done = report("configure-firewall", lab.inventory, "-y", "--limit", "node01")
    (told,) = (change for change in done["changes"] if change["state"] != "done")
    assert (told["kind"], told["state"]) == ("firewalld-permanent", "failed")
    assert "firewalld has not loaded /etc/firewalld/zones/public.xml" in told["message"]
    assert on(lab, "node01", "cat /etc/firewalld/zones/public.xml") == THEIRS
    on(lab, "node01", "firewall-cmd --reload")
    assert report("configure-firewall", lab.inventory, "-y")["verdict"] == "pass"
    assert "9100/tcp" in on(lab, "node01", "firewall-cmd --permanent --list-ports")


def test_a_full_disk_is_met_before_firewalld_empties_a_file(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="firewalld")
    on(lab, "node01", "mount -t tmpfs -o size=64k tmpfs /etc/firewalld/zones; " + ZONES["of the site"])
    before = on(lab, "node01", EVERYTHING)
    done = report("configure-firewall", lab.inventory, "-y", "--limit", "node01")
    (told,) = (change for change in done["changes"] if change["state"] != "done")
    assert (told["kind"], told["state"]) == ("firewalld-permanent", "failed")
    assert told["message"] == "/etc/firewalld/zones/public.xml cannot be written: No space left on device"
    preflight("rollback", done["run"], "-y", "--inventory", lab.inventory)
    assert on(lab, "node01", EVERYTHING) == before
    assert on(lab, "node01", PERMANENT).strip() == "", "nor does its memory hold them"


# As firewalld has written so many of our two rules into the zone's file.
WRITTEN = (1, 2)


def kill_the_program(place: Place) -> bool:
    """Kill the one that preflight has sent, and not what it has called, which ends by itself; False if it is gone."""
    killed = False
    for process in kernel.processes_in([place.netns]):
        with suppress(OSError):  # it has ended meanwhile
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            if b"python" in words and b"firewall" not in words:
                os.kill(process.pid, signal.SIGKILL)
                killed = True
    return killed


@pytest.mark.parametrize(("zone", "then"), [("built-in", "configure-firewall"), ("of the site", "rollback")])
def test_killed_while_firewalld_writes_the_next_run_finishes_or_undoes_it(
    make_lab: MakeLab, zone: str, then: str
) -> None:
    def cut_off_after(lab: LabHandle, number: int) -> bool:
        place = Place(lab, number + 1, lab.dir.parent)
        on(lab, place.name, ZONES[zone])
        before, ports = (
            on(lab, place.name, command) for command in (EVERYTHING, "firewall-cmd --permanent --list-ports")
        )
        process = place.start("configure-firewall", "--inventory", str(lab.inventory))
        file = place.root / "etc/firewalld/zones/public.xml"
        while not file.exists() or file.read_text().count(str(PRIORITY)) < WRITTEN[number]:
            assert process.poll() is None, process.communicate()[0]
        killed = kill_the_program(place)
        process.communicate(timeout=90)
        (first,) = place.own_journals()
        words = (then, first.stem) if then == "rollback" else (then,)
        place.until_done(place.start(*words, "--inventory", str(lab.inventory)))
        if then == "rollback":
            assert on(lab, place.name, EVERYTHING) == before, WRITTEN[number]
        else:
            live, permanent = (
                on(lab, place.name, command) for command in ("firewall-cmd --list-rich-rules", PERMANENT)
            )
            assert len(live.splitlines()) == 2
            assert sorted(permanent.splitlines()) == sorted(live.splitlines()), WRITTEN[number]
            assert on(lab, place.name, "firewall-cmd --permanent --list-ports") == ports
        return killed

    def any_was_cut_off() -> bool:
        lab = make_lab(hosts=len(WRITTEN), devices=0, product="cpu", firewall="firewalld")
        with ThreadPoolExecutor(2) as pool:
            killed = list(pool.map(partial(cut_off_after, lab), range(len(WRITTEN))))
        return any(killed)

    # On a slow machine a program has often ended when it is seen what firewalld has written.
    assert any(any_was_cut_off() for _ in range(3)), "no program was killed in the middle"


def test_to_stop_firewalld_needs_a_service_manager(make_lab: MakeLab) -> None:
    """The lab's hosts run a real firewalld, and nothing that could stop it."""
    lab = make_lab(hosts=1, devices=0, product="cpu", firewall="firewalld")
    off = lab.dir / "off.toml"
    off.write_text(lab.inventory.read_text().replace('policy = "allow"', 'policy = "off"'))
    done = report("configure-firewall", off, "-y", "--allow-disturbing")
    (told,) = done["changes"]
    assert (told["kind"], told["target"], told["state"]) == ("service", "firewalld", "failed")
    assert "no service manager is available" in told["message"]
    assert on(lab, "node01", "firewall-cmd --state").strip() == "running"


# What lies between the hosts, what cannot be judged, and what is not touched.


@pytest.fixture(scope="module")
def three(make_lab: MakeLab) -> LabHandle:
    return make_lab(hosts=3, devices=0, product="cpu", firewall="none")


def nft(lab: LabHandle, host: str, script: str) -> None:
    done = subprocess.run(lab.ssh_command(host, "nft -f -"), input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_sender_whose_output_chain_drops_is_told_once(three: LabHandle) -> None:
    assert report("check", three.inventory, "--only", "FWL")["findings"] == []
    nft(three, "node03", "add table inet out; add chain inet out output { type filter hook output priority 0; }\n"
        "add rule inet out output tcp flags & (syn | ack) == syn tcp dport 29500-60999 drop\n")  # fmt: skip
    try:
        body = report("check", three.inventory, "--only", "FWL")
    finally:
        nft(three, "node03", "delete table inet out\n")
    (told,) = (finding for finding in body["findings"] if finding["outcome"] == "fail")
    assert (told["check"], told["host"]) == ("FWL104", "node03")
    assert told["summary"] == "node03: connections to 2 other hosts fail, but other hosts can reach these hosts"
    assert "check the output chain on node03, then the cloud's security groups" in told["remedy"]
    assert [command.endswith("iptables -S OUTPUT") for command in told["commands"]] == [False, True]


def test_a_rejection_that_looks_like_a_closed_port_is_told_apart(three: LabHandle) -> None:
    """An ICMP "port unreachable" makes the same error of connect() as the port's own answer."""
    nft(three, "node01", "add table inet site; add chain inet site in { type filter hook input priority 0; }\n"
        "add rule inet site in tcp dport 29500 reject with icmpx port-unreachable\n")  # fmt: skip
    try:
        facts = json.loads(preflight("facts", "--inventory", three.inventory, "-o", "json").stdout)
        body = report("check", three.inventory, "--only", "FWL")
    finally:
        nft(three, "node01", "delete table inet site\n")
    tries = [one for one in facts["hosts"]["node01"]["arrivals"]["value"]["tries"] if one["source"] == "node02"]
    assert {(one["port"], one["outcome"], one["by"]) for one in tries} == {
        (29500, "rejected", three.addresses["node01"]), (32768, "refused", None), (60999, "refused", None)
    }  # fmt: skip
    assert {(finding["check"], finding["host"]) for finding in body["findings"]} == {("FWL101", "node01")}


def test_connections_settle_what_cannot_be_judged(three: LabHandle) -> None:
    nft(three, "node02", "add table inet site; add chain inet site in { type filter hook input priority 0; }\n"
        "add chain inet site later; add rule inet site in jump later\n")  # fmt: skip
    try:
        assert report("check", three.inventory, "--only", "FWL")["findings"] == []
        alone = report("check", three.inventory, "--only", "FWL", "--limit", "node02")
        assert outcomes(alone, "FWL101")["node02"] == "unknown", "nobody tried"
    finally:
        nft(three, "node02", "delete table inet site\n")


def test_legacy_iptables_is_a_firewall_like_the_others(three: LabHandle) -> None:
    on(three, "node01", "iptables-legacy -A INPUT -p tcp -m tcp --dport 22 -j ACCEPT; iptables-legacy -P INPUT DROP; "
       "iptables-legacy -I INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT")  # fmt: skip
    before = on(three, "node01", "iptables-legacy -S")
    body = report("configure-firewall", three.inventory, "-y")
    assert {(change["host"], change["target"], change["state"]) for change in body["changes"]} == {
        ("node01", "iptables-legacy", "done")
    }
    assert outcomes(body, "FWL101") == {}
    assert outcomes(body, "FWL102") == {"node01": "warn"}, "nothing brings them back at boot"
    assert comes_through(three, "node02", three.addresses["node01"], 29500)
    assert preflight("rollback", body["run"], "-y", "--inventory", three.inventory).returncode == 0
    assert on(three, "node01", "iptables-legacy -S") == before


def test_off_is_refused_where_addresses_are_translated(make_lab: MakeLab) -> None:
    lab = make_lab(hosts=1, devices=0, product="cpu")
    off = lab.dir / "off.toml"
    off.write_text(lab.inventory.read_text().replace('policy = "allow"', 'policy = "off"'))
    nft(lab, "node01", "add table ip nat; add chain ip nat POSTROUTING { type nat hook postrouting priority srcnat; }\n"
        'add rule ip nat POSTROUTING oifname "eth9" masquerade\n')  # fmt: skip
    before = on(lab, "node01", EVERYTHING)
    body = report("configure-firewall", off, "-y", "--allow-disturbing")
    assert body["changes"] == []
    (told,) = (finding for finding in body["findings"] if finding["check"] == "FWL101")
    assert (told["outcome"], "ip nat POSTROUTING" in told["evidence"][0]) == ("fail", True)
    assert on(lab, "node01", EVERYTHING) == before
