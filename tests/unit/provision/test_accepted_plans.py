"""Plan files that were edited, and journals of hosts: what is accepted of them, and that it ends in a sentence."""

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.cli.main import main
from preflight.model.change import Area, Change, ChangePhase, Kind, Plan, Risk
from preflight.model.errors import UsageError
from preflight.provision.accept import FILES, FORMS, operators_files, undo_refusal
from preflight.provision.document import SavedPlan, dump, load
from preflight.provision.rollback import plan_of
from preflight.transport.programs import source

KEY = "net.ipv4.ip_local_reserved_ports"
NFT_RULE = 'ip saddr 10.0.0.0/16 tcp dport { 29500, 60000-60031 } accept comment "preflight"'
IPTABLES_RULE = "-s 10.0.0.0/16 -p tcp -m multiport --dports 29500,60000:60031 -m comment --comment preflight -j ACCEPT"
RICH_RULE = 'rule priority="-29517" family="ipv4" source address="10.0.0.0/16" port port="29500" protocol="tcp" accept'
HOSTS_BLOCK = "127.0.0.1 localhost\n# BEGIN preflight: the cluster's hosts, from its inventory\n"
LISTING = """table inet filter {
>chain input {
>>type filter hook input priority filter; policy drop;
>>ct state vmap { established : accept, invalid : drop }
>>ip saddr { 10.0.0.1, 10.0.0.2,
>>>   10.0.0.3 } accept comment "x; flush ruleset"
>>meta l4proto icmp counter packets 1 bytes 84 accept
>}
}
""".replace(">", "\t")
COMMENTED = LISTING.replace("\t\ttype", '\t\tcomment "front door"\n\t\ttype')


def change(area: Area, kind: Kind, target: str, before: str | None, after: str | None, **more: Any) -> Change:
    return Change("node01", area, kind, target, before, after, more.pop("why", "PRT101"), **more)


PORTS, FIREWALL, ADDRESSES, ENVIRONMENT = Area.PORTS, Area.FIREWALL, Area.ADDRESSES, Area.ENVIRONMENT
PLAN = (
    change(PORTS, Kind.SYSCTL, KEY, "30000", "30000,60000-60031"),
    change(PORTS, Kind.FILE, "/etc/sysctl.conf", f"a = 1\n{KEY} = 1\n", f"a = 1\n{KEY} = 1,60000-60031\n"),
    change(ENVIRONMENT, Kind.FILE, "/etc/hosts", "127.0.0.1 localhost\n",
           f"{HOSTS_BLOCK}10.0.0.1 node01\n# END preflight\n"),
    change(ENVIRONMENT, Kind.FILE, "/etc/profile.d/preflight-hccl.sh", None,
           "# Written by preflight: common variables of the HCCL jobs of cluster x.\nexport HCCL_A='b'\n"),
    change(FIREWALL, Kind.NFT_RULES, "inet filter input", None, NFT_RULE),
    change(FIREWALL, Kind.NFT_INPUT, "inet filter other", "present", None, risk=Risk.DISTURBING),
    change(FIREWALL, Kind.IPTABLES_RULES, "iptables-nft", None, IPTABLES_RULE),
    change(FIREWALL, Kind.FIREWALLD_RULES, "public", None, RICH_RULE),
    change(FIREWALL, Kind.FIREWALLD_PERMANENT, "public", None, RICH_RULE),
    change(FIREWALL, Kind.UFW_RULES, "ufw", None, "allow tcp 29500,60000:60031 from 10.0.0.0/16"),
    change(FIREWALL, Kind.FILE, "/etc/nftables.conf", "flush ruleset\n",
           'flush ruleset\ninclude "/etc/preflight/*.nft"\n'),
    change(ADDRESSES, Kind.DEVICE_ADDRESS, "0", None, "10.1.0.1/24"),
    change(ADDRESSES, Kind.DEVICE_SAVED, "1 address gateway", "address none gateway none",
           "address 10.1.0.1/24 gateway 10.1.0.254"),
    change(ENVIRONMENT, Kind.FILE, "/etc/security/limits.d/90-preflight.conf", None,
           "# Written by preflight: x\n* soft memlock unlimited\n* soft nofile 1048576\n"),
)  # fmt: skip


def saved(*changes: Change) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(dump(SavedPlan("2026-01-01", "case", "/hosts.toml", Plan(changes))))
    return document


def test_a_plan_of_every_area_is_accepted_as_it_is() -> None:
    text = dump(SavedPlan("2026-01-01", "case", "/hosts.toml", Plan(PLAN)))
    again = load(text.encode(), "plan.json")
    assert again.plan.changes == PLAN
    rows = text.splitlines()
    assert [rows[line - 1].strip() for line in again.lines] == ["{"] * len(PLAN)
    assert [rows[line + 3].strip() for line in again.lines] == [f'"target": {json.dumps(c.target)},' for c in PLAN]


# A change that was edited: the number of the change in PLAN, and what is set in it.
TAMPERED: dict[str, tuple[int, dict[str, Any]]] = {
    "a cron job": (1, {"target": "/etc/cron.d/pwned", "before": None, "after": "* * * * * root id\n"}),
    "a path that climbs": (1, {"target": "/etc/sysctl.d/../../etc/pwned.conf"}),
    "a path that climbs below": (1, {"target": "/etc/sysctl.d/../sysctl.d/a.conf"}),
    "a hidden file": (1, {"target": "/etc/sysctl.d/.conf"}),
    "a file in a folder of the folder": (1, {"target": "/etc/sysctl.d/a/b.conf"}),
    "two slashes": (1, {"target": "//etc/sysctl.conf"}),
    "a path that ends its line": (1, {"target": "/etc/sysctl.conf\n"}),
    "a path with a NUL byte": (1, {"target": "/etc/sysctl.conf\0"}),
    "a relative path": (1, {"target": "etc/sysctl.conf"}),
    "a key": (1, {"target": "/root/.ssh/authorized_keys"}),
    "another setting in a sysctl file": (1, {"after": f"kernel.core_pattern = |/x\n{KEY} = 60000\n"}),
    "a sysctl file emptied": (1, {"after": ""}),
    "a sysctl file removed": (1, {"after": None}),
    "ports out of range in a file": (1, {"after": f"a = 1\n{KEY} = 1-99999999999\n"}),
    "a huge range": (0, {"after": "1-99999999999"}),
    "a port of 65536": (0, {"after": "65536"}),
    "ports that are reserved no more": (0, {"after": "60000-60031"}),
    "ports that are reserved no more in a file": (1, {"after": f"a = 1\n{KEY} = 60000\n"}),
    "a list before that no kernel prints": (0, {"before": "0-65535," * 120_000}),
    "no open files": (13, {"after": "# Written by preflight: x\n* hard nofile 0\n"}),
    "unlimited open files": (13, {"after": "# Written by preflight: x\n* hard nofile unlimited\n"}),
    "no locked memory": (13, {"after": "# Written by preflight: x\nroot hard memlock 0\n"}),
    "a loopback address": (11, {"after": "127.0.0.1/8"}),
    "a multicast address": (11, {"after": "224.0.0.1/4"}),
    "a broadcast address": (11, {"after": "255.255.255.255/32"}),
    "a gateway of zeros": (12, {"after": "address 10.1.0.1/24 gateway 0.0.0.0"}),
    "a long list": (0, {"after": ",".join(map(str, range(1, 5000, 2)))}),
    "another kernel setting": (0, {"target": "kernel.core_pattern", "after": "|/x"}),
    "a kernel setting as a path": (0, {"target": "net/ipv4/ip_local_reserved_ports"}),
    "a value of two lines": (0, {"after": "60000\n60001"}),
    "no value": (0, {"after": None}),
    "a host of another's name": (2, {"after": f"{HOSTS_BLOCK}10.0.0.1 node01; id\n# END preflight\n"}),
    "a line behind our block": (2, {"after": f"{HOSTS_BLOCK}10.0.0.1 node01\n# END preflight\n6.6.6.6 pypi.org\n"}),
    "a command in the profile": (3, {"after": "# Written by preflight: x\nexport HCCL_A='b'; id\n"}),
    "a command in a value": (3, {"after": "# Written by preflight: x\nexport HCCL_A=$(id)\n"}),
    "a quote in a value": (3, {"after": "# Written by preflight: x\nexport HCCL_A='b'$(id)'c'\n"}),
    "another variable": (3, {"after": "# Written by preflight: x\nexport LD_PRELOAD='/x'\n"}),
    "a second statement": (4, {"after": f"{NFT_RULE}; flush ruleset"}),
    "a flushed rule set": (4, {"after": "flush ruleset"}),
    "a rule that lets all in": (4, {"after": 'accept comment "preflight"'}),
    "a rule that drops": (4, {"after": NFT_RULE.replace("accept", "drop")}),
    "an option for a table": (4, {"target": "inet -f /etc/shadow"}),
    "a file for a chain": (4, {"target": "inet filter /etc/shadow"}),
    "another family": (4, {"target": "netdev filter input"}),
    "a firewall rule of the ports": (4, {"area": "ports"}),
    "a network of a mask": (4, {"after": NFT_RULE.replace("10.0.0.0/16", "10.0.0.0/255")}),
    "a flush for a chain": (5, {"after": "flush ruleset"}),
    "an include for a chain": (5, {"after": 'include "/etc/shadow"'}),
    "a chain as plain ports": (5, {"area": "ports"}),
    "a chain that is called safe": (5, {"risk": "safe"}),
    "a chain listing": (5, {"after": LISTING}),
    "another program": (6, {"target": "/tmp/iptables"}),
    "an option of iptables": (6, {"after": IPTABLES_RULE + " --modprobe=/x"}),
    "a zone as an option": (7, {"target": "public --panic-on"}),
    "a rule of another priority": (8, {"after": RICH_RULE.replace("-29517", "-1")}),
    "a rule for all": (9, {"after": "allow tcp 22 from any"}),
    "another line in nftables.conf": (10, {"after": 'flush ruleset\ninclude "/etc/shadow"\n'}),
    "a device and a command": (11, {"target": "0;"}),
    "a device that the host does not have": (11, {"target": "55"}),
    "a saved value of a device that the host does not have": (12, {"target": "55 address gateway"}),
    "a device in words": (11, {"target": "zero"}),
    "no device": (11, {"target": ""}),
    "a device of other digits": (11, {"target": "\u0663"}),
    "a device address with two slashes": (11, {"after": "10.1.0.1/24/24"}),
    "a device address without a prefix": (11, {"after": "10.1.0.1"}),
    "a device's network": (11, {"after": "10.1.0.0/24"}),
    "a key that a device does not have": (12, {"target": "1 address secret"}),
    "a value for another key": (12, {"after": "mtu 1500 gateway 10.1.0.254"}),
    "a program": (1, {"kind": "program", "target": "/usr/local/sbin/preflight-gate", "area": "environment"}),
    "a service": (5, {"kind": "service", "target": "sshd", "before": "active", "after": "inactive"}),
    "an unknown kind": (0, {"kind": "shell"}),
    "an unknown field": (0, {"phase": "plain"}),
    "a field of another type": (0, {"after": 60000}),
    "a list for a target": (0, {"target": [KEY]}),
    "no check": (0, {"why": "because"}),
    "an escape in a note": (0, {"note": "\x1b[2J"}),
    "a very long note": (0, {"note": "x" * 100_000}),
    "a very long value": (0, {"after": "1" * (9 << 20)}),
    "a host with an escape": (0, {"host": "node01\x1b]0;x\x07"}),
    "a host that is not in the inventory": (0, {"host": "node77"}),
}
INVENTORY = """\
[cluster]
name = "case"
product = "atlas-a1"
devices = 2
[[hosts]]
name = "node[01-02]"
address = "127.0.0.[1-2]"
"""

Apply = Callable[[bytes], tuple[int, str]]


@pytest.fixture
def apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Apply:
    """Run `preflight apply` on a plan's text: the exit code and what it says. No host is ever contacted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "hosts.toml").write_text(INVENTORY)

    def contacted(*_: object, **__: object) -> None:
        raise AssertionError("a host was about to be contacted")

    monkeypatch.setattr("preflight.provision.apply.fan_out", contacted)

    def run(text: bytes) -> tuple[int, str]:
        Path("plan.json").write_bytes(text)
        code = main(["apply", "plan.json", "--inventory", "hosts.toml", "-y"])
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("name", TAMPERED)
def test_a_change_that_was_edited_is_refused_with_its_line_before_any_host_is_contacted(
    name: str, apply: Apply
) -> None:
    number, edits = TAMPERED[name]
    document = saved(*PLAN)
    document["changes"][number] |= edits
    text = json.dumps(document, indent=2)
    code, error = apply(text.encode())
    assert code == 2
    assert "Traceback" not in error
    assert "\x1b" not in error
    begins = [at for at, row in enumerate(text.splitlines(), 1) if row == "    {"][number]
    assert error.startswith(f"preflight: plan.json:{begins}: "), error
    assert "no host was contacted" in error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps({**saved(PLAN[0]), "phase": "plain"}), "unknown field 'phase'"),
        (json.dumps({**saved(PLAN[0]), "changes": {}}), "should be a list"),
        (json.dumps({**saved(PLAN[0]), "cluster": "\x1b[2J"}), "is for cluster \\x1b[2J"),
        (json.dumps(saved(PLAN[0], PLAN[0])), "is changed twice"),
        (json.dumps(saved(PLAN[0]))[:-1] + ', "changes": []}', 'the key "changes" occurs twice'),
        (json.dumps(saved(PLAN[0])).replace('"PRT101"', "[" * 100_000), "not a plan: "),
        (json.dumps(saved(PLAN[0])).replace('"PRT101"', '"\\ud800"'), "not a plan: "),
        (json.dumps(saved(PLAN[0])).replace('"PRT101"', "7"), "should be text"),
        (json.dumps(saved(*PLAN[:2])).replace('"changes"', '"\\u0063hanges"'), "it has no list with the key"),
    ],
)
def test_a_document_that_was_edited_is_refused(text: str, words: str, apply: Apply) -> None:
    code, error = apply(text.encode())
    assert (code, "Traceback" in error) == (2, False)
    assert words in error


def test_a_plan_that_was_not_edited_goes_on_to_the_hosts(apply: Apply) -> None:
    code, error = apply(json.dumps(saved(PLAN[0])).encode())
    assert (code, "a host was about to be contacted" in error) == (4, True)


# Mutations of single places, thousands of them: a change that is still accepted is one that a writer may be given.

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            "\0",
            "..",
            "/etc/cron.d/x",
            "flush ruleset",
            'include "/etc/shadow"',
            ";id",
            "$(id)",
            "1-99999999999",
            "-1",
            "0 0",
            "é",
            "\n",
            "\x1b[2J",
            "{",
            "}",
            "a" * 5000,
            "٣",
            "inet",
            "present",
        ]
    ),
)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.lists(TEXTS, max_size=2))


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A change of PLAN with one or two fields that something was done to."""
    document: dict[str, Any] = saved(draw(st.sampled_from(PLAN)))["changes"][0]
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from([*document, "phase", "extra"]))
        old = document.get(name)
        how = draw(st.integers(0, 3))
        if how == 0 or not isinstance(old, str):
            document[name] = draw(VALUES)
        elif how == 1:
            at = draw(st.integers(0, len(old)))
            document[name] = old[:at] + draw(TEXTS) + old[at + draw(st.integers(0, 3)) :]
        elif how == 2:
            other = saved(draw(st.sampled_from(PLAN)))["changes"][0]
            document[name] = other.get(name)
        else:
            document[name] = old * draw(st.integers(0, 2))
    return document


DEFAULTS = {"risk": "safe", "note": ""}
SAFE_VALUE = re.compile(r"[0-9,-]*|(?:(?:ip |-s |rule |allow )[^;\n]*\n?)+|[0-9./]+|(?:[a-z]+ [0-9./none]+ ?)+|no")


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_a_mutated_change_is_refused_or_one_that_may_be_made(document: dict[str, Any]) -> None:
    text = json.dumps({**saved(), "changes": [document]}).encode()
    try:
        (made,) = load(text, "plan.json").plan.changes
    except UsageError as error:
        assert str(error).startswith("plan.json")
        return
    assert saved(made)["changes"][0] == {**saved(PLAN[0])["changes"][0], **DEFAULTS, **document}, "nothing is left out"
    table = {file.area for file in FILES if file.path.fullmatch(made.target)}
    assert made.area in table if made.kind is Kind.FILE else made.area is FORMS[made.kind].area
    assert "\0" not in f"{made.target}{made.after}"
    assert made.kind is not Kind.FILE or ".." not in made.target.split("/")
    if made.kind is not Kind.FILE and made.after is not None:
        assert SAFE_VALUE.fullmatch(made.after), made.after
    firewall = made.area is FIREWALL
    assert (made.phase is ChangePhase.PLAIN) is not firewall


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 5000), st.integers(0, 40))
def test_a_plan_file_of_other_bytes_is_a_plan_or_a_sentence(junk: bytes, at: int, length: int) -> None:
    text = json.dumps(saved(*PLAN)).encode()
    try:
        load(text[:at] + junk + text[at + length :], "plan.json")
    except UsageError as error:
        assert str(error).startswith("plan.json")


# What comes out of a host's journal.

UNDONE = (
    *(change(c.area, c.kind, c.target, c.after, c.before) for c in PLAN if c.kind is not Kind.NFT_INPUT),
    change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, LISTING),
    change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, COMMENTED),
    change(
        FIREWALL, Kind.IPTABLES_INPUT, "iptables-nft", None, '-P INPUT DROP\n-A INPUT -m comment --comment "a \\" b"'
    ),
    change(FIREWALL, Kind.SERVICE, "firewalld", "inactive", "active"),
    change(FIREWALL, Kind.SERVICE_AT_BOOT, "nftables", "disabled", "enabled"),
    change(FIREWALL, Kind.UFW_ENABLED, "ufw", "no", "yes"),
    change(FIREWALL, Kind.FILE, "/etc/firewalld/zones/public.xml.old", "<zone/>", "<zone></zone>"),
    change(FIREWALL, Kind.FILE, "/etc/ufw/user.rules", "a", "b"),
    change(ADDRESSES, Kind.FILE, "/etc/hccn.conf", "address_0=10.0.0.1\n", None),
    change(ENVIRONMENT, Kind.PROGRAM, "/usr/local/sbin/preflight-gate", "#!/bin/sh\n", "0644 1:1\nx"),
    change(ENVIRONMENT, Kind.FILE, "/etc/preflight/gate.json", "{}", None),
    change(ENVIRONMENT, Kind.FILE, "/data/hccl.json", '{"server_list": []}', None),
)  # fmt: skip


@pytest.mark.parametrize("undone", UNDONE, ids=lambda undone: f"{undone.kind} {undone.target}")
def test_what_leads_back_is_accepted(undone: Change) -> None:
    assert undo_refusal(undone) == ""
    plan_of([undone])


def listing_with(line: str) -> str:
    return LISTING.replace("\t\tmeta l4proto", f"\t\t{line}\n\t\tmeta l4proto")


@pytest.mark.parametrize(
    "hostile",
    [
        change(ENVIRONMENT, Kind.FILE, "/etc/cron.d/pwned", None, "x"),
        change(ENVIRONMENT, Kind.FILE, "/etc/cron.d/pwned", '{"server_list": []}', "* * * * * root id"),
        change(ENVIRONMENT, Kind.FILE, "/data/../etc/x", '{"server_list": []}', None),
        change(PORTS, Kind.FILE, "/etc/nftables.conf", "a", "b"),
        change(PORTS, Kind.SYSCTL, KEY, "1", "1-99999999999"),
        change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, "flush ruleset"),
        change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, LISTING + "flush ruleset\n"),
        change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, LISTING + LISTING),
        change(FIREWALL, Kind.NFT_INPUT, "inet other input", None, LISTING),
        change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, listing_with('include "/etc/shadow"')),
        change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, listing_with("accept; drop")),
        change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, COMMENTED.replace('door"', 'door"; drop')),
        change(
            FIREWALL, Kind.NFT_INPUT, "inet filter input", None, listing_with('jump { include "/etc/shadow"\n\t\t}')
        ),
        change(FIREWALL, Kind.NFT_INPUT, "inet filter input", None, listing_with("}\n\tchain x {")),
        change(FIREWALL, Kind.NFT_RULES, "inet filter input", NFT_RULE, f"{NFT_RULE}\nflush ruleset"),
        change(FIREWALL, Kind.NFT_RULES, "inet filter input", NFT_RULE, 'x { } } include "/x" comment "preflight"'),
        change(FIREWALL, Kind.IPTABLES_INPUT, "iptables-nft", None, "-P INPUT DROP\nCOMMIT\n*nat"),
        change(FIREWALL, Kind.SERVICE, "sshd", "active", "inactive"),
        change(FIREWALL, Kind.UFW_ENABLED, "ufw", "yes", "maybe"),
        change(ADDRESSES, Kind.DEVICE_ADDRESS, "0;", "10.0.0.1/24", None),
        change(ADDRESSES, Kind.DEVICE_GATEWAY, "0", "10.0.0.1", "-x"),
        change(ENVIRONMENT, Kind.PROGRAM, "/bin/sh", "a", "b"),
    ],
)
def test_what_a_hostile_journal_asks_for_is_not_sent_back(hostile: Change) -> None:
    assert undo_refusal(hostile) != ""


def test_what_a_pushed_rank_table_replaced_comes_back_where_this_machine_knows_of_it() -> None:
    back = change(ENVIRONMENT, Kind.FILE, "/data/t.json", '{"server_list": []}', "something else")
    assert undo_refusal(back) != ""
    assert undo_refusal(back, ["/data/t.json"]) == ""
    assert operators_files([back, PLAN[1]]) == ["/data/t.json"]


# The host's own program has the same targets.


@pytest.fixture(scope="module")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The host's module, as it is sent."""
    folder = tmp_path_factory.mktemp("host")
    namespace: dict[str, Any] = {"__name__": "sent"}
    text = source("apply").replace("from apply.main import main\nmain()", "")
    path = folder / "apply.py"
    path.write_text(text)
    exec(compile(text, path, "exec"), namespace)
    return importlib.import_module("apply.allowed")


def request(*changes: Change, **more: Any) -> dict[str, Any]:
    from preflight.provision.host_run import _phases

    return {**_phases(changes), **more}


def test_the_host_accepts_what_is_planned_and_what_leads_back(allowed: Any) -> None:
    for one in (*PLAN, *UNDONE):
        allowed.refuse_strange(request(one))


def refused_by_host(allowed: Any, asked: dict[str, Any]) -> bool:
    try:
        allowed.refuse_strange(asked)
    except Exception as error:
        assert type(error).__name__ == "StepError"
        return True
    return False


def test_the_host_refuses_what_is_none_of_its_own(allowed: Any) -> None:
    for name in ("a cron job", "a path that climbs", "a path that climbs below", "an option for a table",
                 "a huge range", "another kernel setting", "a second statement", "a flush for a chain",
                 "an include for a chain", "another program", "a zone as an option", "a device and a command",
                 "a device in words", "no device", "a device address with two slashes", "a service"):  # fmt: skip
        number, edits = TAMPERED[name]
        document = saved(PLAN[number])["changes"][0] | edits
        phase = PLAN[number].phase.value
        assert refused_by_host(allowed, {"plain": [], "guarded": [], "kept": [], phase: [document]}), name


def test_controller_and_host_have_the_same_targets(allowed: Any) -> None:
    paths = [one.target for one in (*PLAN, *UNDONE) if one.kind is Kind.FILE]
    paths += ["/etc/tuned/a/tuned.conf", "/etc/tuned/profiles/a/tuned.conf", "/run/sysctl.d/a.conf", "/etc/passwd",
              "/usr/lib/sysctl.d/a.conf", "/etc/iptables/rules.v6", "/etc/sysconfig/ip6tables", "/etc/ufw/ufw.conf",
              "/etc/ufw/before.rules", "/etc/security/limits.d/90-preflight.conf", "/etc/sysctl.d/a"]  # fmt: skip
    for path in paths:
        assert any(f.path.fullmatch(path) for f in FILES) == bool(allowed.is_target("file", path)), path
    targets = {one.target for one in (*PLAN, *UNDONE)} | {"x y", "sshd", "0;", "iptables", "inet -f x"}
    for kind, form in FORMS.items():
        for target in targets:
            assert bool(form.target.fullmatch(target)) == bool(allowed.is_target(kind.value, target)), (kind, target)
    assert {kind.value for kind in FORMS} | {"file"} == set(allowed.TARGETS)


@pytest.mark.usefixtures("allowed")
def test_controller_and_host_make_a_change_in_the_same_phase() -> None:
    phases = importlib.import_module("apply.phases")
    changes = [*PLAN, *UNDONE, *(change(form.area, kind, "x", None, "y") for kind, form in FORMS.items())]
    paths = ("/etc/iptables/rules.v6", "/etc/sysconfig/ip6tables", "/etc/ufw/ufw.conf", "/etc/firewalld/zones/a.xml")
    changes += [change(FIREWALL, Kind.FILE, path, None, "y") for path in paths]
    for one in changes:
        sent = request(one, action="apply")
        assert phases.phase_of(sent[one.phase.value][0]) == one.phase.value, one
        assert phases.by_phase(sent) == sent, one


@pytest.mark.parametrize(
    ("kind", "sent", "made"),
    [
        (Kind.NFT_RULES, "plain", "guarded"),
        (Kind.SERVICE, "kept", "guarded"),
        (Kind.SERVICE_AT_BOOT, "plain", "kept"),
        (Kind.SERVICE_AT_BOOT, "guarded", "guarded"),
        (Kind.SYSCTL, "guarded", "guarded"),
    ],
)
@pytest.mark.usefixtures("allowed")
def test_the_host_moves_a_change_of_the_firewall_into_its_own_phase(kind: Kind, sent: str, made: str) -> None:
    phases = importlib.import_module("apply.phases")
    one = {"kind": kind.value, "target": "x"}
    asked = {"action": "apply", "plain": [], "guarded": [], "kept": []}
    assert phases.by_phase({**asked, sent: [one]}) == {**asked, made: [one]}
