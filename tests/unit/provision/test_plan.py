"""Findings → plan → what may be done now → how it is shown → what is asked before."""

import inspect
from collections.abc import Iterable
from dataclasses import replace

import pytest

from preflight.checks.engine.registry import Scribe, all_checks
from preflight.facts.types import (
    ClusterFacts,
    Hccn,
    HccnDevice,
    HostFacts,
    Missing,
    NpuChip,
    NpuProcess,
    NpuSmi,
    Reading,
    Unreachable,
)
from preflight.model.change import Area, Change, Kind, Plan, Risk, StepResult, StepState
from preflight.model.errors import PreflightError
from preflight.model.finding import Finding
from preflight.model.outcome import Outcome
from preflight.model.ping import Ping
from preflight.provision.hold import held_back, not_reached, not_seen
from preflight.provision.plan import make_plan
from preflight.provision.precheck import not_asked, questions, taken
from preflight.provision.render import COLUMNS, render
from preflight.provision.render_results import render_fixed, render_results
from preflight.provision.rollback import plan_of
from tests.unit.healthy import healthy_cluster

KEY = "net.ipv4.ip_local_reserved_ports"
EVERY = tuple(Area)


def ports(host: str = "node01", before: str = "30000", after: str = "30000,60000-60031", why: str = "PRT101") -> Change:
    return Change(host, Area.PORTS, Kind.SYSCTL, KEY, before, after, why)


def boot_file(host: str = "node01", before: str | None = None) -> Change:
    return Change(host, Area.PORTS, Kind.FILE, "/etc/sysctl.d/90-preflight.conf", before, f"{KEY} = 60000\n", "PRT102")


def rule(host: str = "node01") -> Change:
    return Change(host, Area.FIREWALL, Kind.NFT_RULES, "inet filter input", None, "tcp dport 60000 accept", "FWL101")


def rule_file(host: str = "node01") -> Change:
    return Change(host, Area.FIREWALL, Kind.FILE, "/etc/preflight/nftables.nft", None, "# ours\n", "FWL102")


def address(host: str, device: int, before: str | None, after: str, risk: Risk = Risk.SAFE) -> Change:
    return Change(host, Area.ADDRESSES, Kind.DEVICE_ADDRESS, str(device), before, after, "NPU101", risk)


def gateway(host: str, device: int) -> Change:
    return Change(host, Area.ADDRESSES, Kind.DEVICE_GATEWAY, str(device), None, "10.0.0.254", "NPU103")


def found(*changes: Change | None, outcome: Outcome = Outcome.FAIL) -> list[Finding]:
    return [Finding(c.why if c else "X", outcome, "…", host=c.host if c else "node01", change=c) for c in changes]


# The plan.


def test_a_hosts_changes_come_in_the_order_of_their_kinds_and_the_firewall_last() -> None:
    changes = (
        rule(),
        rule_file(),
        gateway("node01", 0),
        address("node01", 0, None, "10.0.0.1/24"),
        ports(),
        boot_file(),
    )
    plan = make_plan(found(*changes), EVERY)
    assert [change.kind for change in plan.changes] == [
        Kind.FILE,
        Kind.SYSCTL,
        Kind.DEVICE_ADDRESS,
        Kind.DEVICE_GATEWAY,
        Kind.NFT_RULES,
        Kind.FILE,
    ]
    assert [change.area for change in plan.changes[4:]] == [Area.FIREWALL, Area.FIREWALL]


def test_a_plan_is_limited_to_its_areas() -> None:
    assert make_plan(found(ports(), rule(), None), (Area.FIREWALL,)).changes == (rule(),)


def test_temporary_keeps_of_the_ports_only_what_the_kernel_holds() -> None:
    plan = make_plan(found(boot_file(), ports(), rule_file()), EVERY, temporary=True)
    assert plan.changes == (ports(), rule_file())


def test_two_checks_that_want_the_same_give_one_change() -> None:
    assert make_plan(found(ports(), ports(why="PRT199")), EVERY).changes == (ports(),)


def test_two_checks_that_want_different_things_stop_everything_by_name() -> None:
    with pytest.raises(PreflightError) as error:
        make_plan(found(ports(), ports(after="61000", why="PRT199")), EVERY)
    assert str(error.value) == (
        f"node01: two checks need different values of sysctl {KEY}: PRT101 '30000,60000-60031' and PRT199 '61000'. "
        "Nothing was changed."
    )


def recovery(host: str, device: int, before: str = "address none", after: str = "address 10.0.0.1/24") -> Change:
    target = f"{device} {' '.join(before.split()[::2])}"
    note = "restores all that the file says"
    return Change(host, Area.ADDRESSES, Kind.DEVICE_RECOVERY, target, before, after, "NPU104", Risk.DISTURBING, note)


def saved(host: str, device: int, before: str, after: str) -> Change:
    target = f"{device} {' '.join(before.split()[::2])}"
    return Change(host, Area.ADDRESSES, Kind.DEVICE_SAVED, target, before, after, "NPU104")


def test_a_device_that_is_restored_is_not_set_besides() -> None:
    changes = (
        address("node01", 0, None, "10.0.0.1/24"),
        gateway("node01", 0),
        address("node01", 1, None, "10.0.0.2/24"),
    )
    plan = make_plan(found(*changes, recovery("node01", 0)), EVERY)
    assert plan.changes == (changes[2], recovery("node01", 0))


# Taken back.


def test_what_a_device_keeps_is_said_and_what_stands_in_its_file_goes_with_the_file() -> None:
    def back(change: Change) -> Change:
        return replace(change, before=change.after, after=change.before)

    file = Change("node01", Area.ADDRESSES, Kind.FILE, "/etc/hccn.conf", "address_0=…\n", "", "")
    changes = (
        back(address("node01", 0, None, "10.0.0.1/24")),
        back(address("node01", 1, "10.0.0.9/24", "10.0.0.2/24")),
        back(saved("node01", 2, "address none", "address 10.0.0.3/24")),
        back(recovery("node01", 3)),
        file,
    )
    plan, keeps = plan_of(changes)
    assert [(change.kind, change.after, change.risk) for change in plan.changes] == [
        (Kind.DEVICE_ADDRESS, "10.0.0.9/24", Risk.SAFE),
        (Kind.FILE, "", Risk.NEEDS_REBOOT),
    ]
    assert keeps == (
        "node01: device 0 keeps 10.0.0.1/24 until reboot",
        "node01: device 3 keeps the settings restored from /etc/hccn.conf",
    )


def test_what_devices_keep_is_folded_over_devices_and_hosts() -> None:
    def kept(host: str, device: int, last: int) -> list[Change]:
        target = str(device)
        return [
            Change(host, Area.ADDRESSES, Kind.DEVICE_GATEWAY, target, "10.0.0.254", None, "r1"),
            Change(host, Area.ADDRESSES, Kind.DEVICE_ADDRESS, target, f"10.0.0.{last}/24", None, "r1"),
        ]

    two = [change for number, host in enumerate(("node01", "node02")) for d in range(4)
           for change in kept(host, d, 4 * number + d)]  # fmt: skip
    assert plan_of([*two, *kept("node03", 2, 99)])[1] == (
        "node[01-02]: devices 0-3 keep 10.0.0.0/24 … 10.0.0.7/24, gateway 10.0.0.254 until reboot",
        "node03: device 2 keeps 10.0.0.99/24, gateway 10.0.0.254 until reboot",
    )
    given_back = [recovery(host, 1) for host in ("node01", "node02")]
    assert plan_of(given_back)[1] == ("node[01-02]: device 1 keeps the settings restored from /etc/hccn.conf",)


# What has to wait.


MISSING = Missing("not looked at")
NOTHING = HostFacts(MISSING, MISSING, MISSING, MISSING, MISSING, MISSING, MISSING, MISSING, MISSING)


def hosts(**npu_smi: NpuSmi | Missing | None) -> ClusterFacts:
    return ClusterFacts({name: replace(NOTHING, npu_smi=value) for name, value in npu_smi.items()})


def smi(processes: Iterable[NpuProcess] = (), busy: int | None = 0) -> NpuSmi:
    return NpuSmi("24.1", tuple(NpuChip(device, "910A", "OK", busy) for device in range(2)), tuple(processes))


ADDRESSES = Plan((address("node01", 0, None, "10.0.0.1/24"), address("node01", 1, None, "10.0.0.2/24"), ports()))


def test_a_device_with_a_running_job_is_left_alone_and_the_process_is_named() -> None:
    facts = hosts(node01=smi([NpuProcess(1, 4711, "python")]))
    plan, notes = held_back(ADDRESSES, facts)
    assert [change.target for change in plan.changes] == ["0", KEY]
    assert notes == (
        "node01: device 1 is left out: process python (pid 4711) uses it. To include it, add --force-busy.",
    )


def test_over_a_site_s_engine_the_firewall_is_left_out() -> None:
    """No engine can confirm that a host still accepts new connections."""
    rules = Change("node01", Area.FIREWALL, Kind.NFT_RULES, "inet filter input", None, "accept", "FWL101")
    files = Change("node01", Area.FIREWALL, Kind.FILE, "/etc/nftables.d/preflight.nft", None, "accept", "FWL103")
    ports = Change("node01", Area.PORTS, Kind.SYSCTL, "net.ipv4.ip_local_reserved_ports", "", "60000", "PRT101")
    plan, notes = held_back(Plan((rules, files, ports)), ClusterFacts({}), by_ssh=False)
    assert rules not in plan.changes
    assert ports in plan.changes
    assert notes == ("node01: the firewall is left out: only ssh can confirm its changes. To include it, omit --via.",)
    assert held_back(Plan((rules, ports)), ClusterFacts({}))[0] == Plan((rules, ports))


def test_the_user_of_the_process_is_named_and_every_kind_of_device_change_waits() -> None:
    facts = hosts(node01=smi([NpuProcess(1, 4711, "python", "jo")]))
    waiting = saved("node01", 1, "address none", "address 10.0.0.2/24"), recovery("node01", 1)
    plan, notes = held_back(Plan(waiting), facts, allow_disturbing=True)
    assert plan.changes == ()
    assert notes == (
        "node01: device 1 is left out: process python (pid 4711, user jo) uses it. To include it, add --force-busy.",
    )


def test_a_device_that_is_busy_without_a_process_is_left_alone() -> None:
    plan, notes = held_back(ADDRESSES, hosts(node01=smi(busy=37)))
    assert plan.changes == (ports(),)
    assert (
        "node01: device 0 is left out: its AI cores are 37% busy, although npu-smi lists no process. "
        "To include it, add --force-busy." in notes
    )


def test_a_device_of_which_nobody_can_tell_counts_as_busy() -> None:
    plan, notes = held_back(ADDRESSES, hosts(node01=Missing("npu-smi is not installed")))
    assert plan.changes == (ports(),)
    assert notes[0].endswith(
        "a job may use it, since npu-smi failed: npu-smi is not installed. To include it, add --force-busy."
    )
    assert not held_back(Plan(ADDRESSES.changes[:1]), ClusterFacts({"node01": Unreachable("timeout", "…", "…")}))[
        0
    ].changes


def test_a_disturbing_change_waits_until_it_is_allowed() -> None:
    change = address("node01", 0, "10.9.9.9/16", "10.0.0.1/24", Risk.DISTURBING)
    facts = hosts(node01=smi())
    plan, notes = held_back(Plan((change,)), facts)
    assert plan.changes == ()
    assert notes == (
        "node01: device 0 address: '10.9.9.9/16' -> '10.0.0.1/24' is left out, since it may disturb "
        "running programs. To include it, add --allow-disturbing.",
    )
    assert held_back(Plan((change,)), facts, allow_disturbing=True) == (Plan((change,)), ())


# How it is shown.


def fold(names: Iterable[str]) -> str:
    names = list(names)
    return names[0] if len(names) == 1 else f"{names[0]}…{names[-1]}"


def shown(*changes: Change, notes: tuple[str, ...] = ()) -> list[str]:
    return [line.text for line in render(Plan(changes), notes, fold=fold)]


def test_hosts_with_the_same_changes_are_folded() -> None:
    assert shown(ports(), ports("node02"), ports("node03", before="", after="60000-60031")) == [
        "node01…node02 (2 hosts)",
        f"  ~ {KEY}: 30000 -> 30000,60000-60031",
        "",
        "node03",
        f"  ~ {KEY}: nothing -> 60000-60031",
        "",
    ]


def test_a_new_file_is_shown_whole_and_a_changed_one_as_a_diff() -> None:
    conf = Change("node01", Area.PORTS, Kind.FILE, "/etc/sysctl.conf", "a = 1\nb = 2", "a = 1\nb = 3", "PRT102")
    assert shown(boot_file(), conf) == [
        "node01",
        "  + /etc/sysctl.d/90-preflight.conf",
        f"      +{KEY} = 60000",
        "  ~ /etc/sysctl.conf",
        "      @@ -1,2 +1,2 @@",
        "       a = 1",
        "      -b = 2",
        "      \\ no newline at the end of the file",
        "      +b = 3",
        "      \\ no newline at the end of the file",
        "",
    ]


def test_device_addresses_are_one_table() -> None:
    changes = (
        address("node01", 0, None, "10.0.0.1/24"),
        gateway("node01", 0),
        address("node02", 10, "10.0.0.9/16", "10.0.0.2/24"),
    )
    assert shown(*changes) == [
        "device NICs",
        "  host    device  address                     gateway",
        "  node01  0       10.0.0.1/24                 10.0.0.254",
        "  node02  10      10.0.0.9/16 -> 10.0.0.2/24",
        "",
    ]


def test_what_is_not_set_on_a_device_is_shown_as_what_it_is() -> None:
    mtu = Change("node01", Area.ADDRESSES, Kind.DEVICE_MTU, "0", "1500", "4200", "NPU115")
    file_only = saved("node01", 0, "address 10.0.0.9/24", "address 10.0.0.1/24")
    restored = recovery("node02", 1, "address none gateway 10.0.0.254", "address 10.0.0.2/24 gateway 10.0.0.254")
    assert shown(mtu, file_only, restored)[1:] == [
        "  host    device  address                     MTU",
        "  node01  0                                   1500 -> 4200",
        "  node01  0       10.0.0.9/24 -> 10.0.0.1/24                only the file",
        "  node02  1       10.0.0.2/24                               restored",
        "  ! restores all that the file says",
        "",
    ]


def test_a_long_port_list_is_broken_after_commas_and_nothing_is_lost() -> None:
    after = ",".join(str(port) for port in range(60000, 60060, 2))
    lines = shown(ports(after=after))
    assert all(len(line) <= COLUMNS for line in lines)
    assert "".join(line.strip().removeprefix("+ ") for line in lines[3:]) == after


def test_what_a_host_sent_cannot_steer_the_terminal() -> None:
    conf = Change("node01", Area.PORTS, Kind.FILE, "/etc/sysctl.conf", "x\x1b[2J\n", "y\n", "PRT102")
    assert "      -x\\x1b[2J" in shown(conf)
    conf = replace(conf, before="# r\U0010ffe9serv\n")
    assert "      -# r\\xe9serv" in shown(conf), "a byte that is no UTF-8 is shown as one"


def test_a_disturbing_change_and_its_note_are_marked() -> None:
    off = Change(
        "node01", Area.FIREWALL, Kind.UFW_ENABLED, "ufw", "yes", "no", "FWL101", Risk.DISTURBING, "all ports open"
    )
    assert shown(off, notes=("node02: something was left out",)) == [
        "node01",
        "  ~ ufw enabled: yes -> no",
        "      ! may disturb running programs",
        "      ! all ports open",
        "",
        "! node02: something was left out",
    ]


def test_a_chain_of_iptables_is_said_to_be_emptied_and_one_of_nftables_deleted() -> None:
    def off(kind: Kind, target: str, after: str | None = None) -> Change:
        before = None if after else "present"
        return Change("node01", Area.FIREWALL, kind, target, before, after, "FWL101", Risk.DISTURBING)

    lines = shown(
        off(Kind.IPTABLES_INPUT, "iptables-nft"), off(Kind.NFT_INPUT, "inet filter input"),
        off(Kind.IPTABLES_INPUT, "ip6tables-nft", "-P INPUT DROP\n-A INPUT -j LOG"),
        off(Kind.NFT_INPUT, "ip a b", "table ip a {\n\tchain b {\n\t}\n}\n"),
    )  # fmt: skip
    assert "  ~ iptables-nft chain INPUT: emptied, policy ACCEPT" in lines
    assert "  ~ nftables chain inet filter input: deleted, with all its rules" in lines
    put_back = lines.index("  ~ ip6tables-nft chain INPUT: restored")
    assert lines[put_back + 1 : put_back + 3] == ["      +-P INPUT DROP", "      +-A INPUT -j LOG"]
    put_back = lines.index("  ~ nftables chain ip a b: restored")
    assert lines[put_back + 1 : put_back + 5] == ["      +table ip a {", "      + chain b {", "      + }", "      +}"]


def test_files_that_differ_in_the_hosts_own_addresses_are_folded() -> None:
    def back(host: str, address: str, mtu: str = "") -> Change:
        text = f"address_0={address}\ngateway_0=10.0.0.254\n{mtu}"
        return Change(host, Area.ADDRESSES, Kind.FILE, "/etc/hccn.conf", text, None, "r1", Risk.NEEDS_REBOOT)

    assert shown(
        back("node01", "10.0.0.1"), back("node02", "10.0.0.2"), back("node03", "10.0.0.3", "mtu_0=9000\n")
    ) == [
        "node01…node02 (2 hosts)",
        "  - /etc/hccn.conf",
        "      -address_0=10.0.0.1",
        "      -gateway_0=10.0.0.254",
        "      ! takes effect at the next boot",
        "      ! shown for node01; the others get their own addresses",
        "",
        "node03",
        "  - /etc/hccn.conf",
        "      -address_0=10.0.0.3",
        "      -gateway_0=10.0.0.254",
        "      -mtu_0=9000",
        "      ! takes effect at the next boot",
        "",
    ]


def test_a_program_is_named_by_its_size_and_the_policies_of_the_gate_are_folded() -> None:
    def gate(host: str) -> list[Change]:
        old, new = "#!/bin/sh\n", "#" * 2048
        policy = f'{{\n  "host": "{host}",\n  "undrain": false\n}}\n'
        return [
            Change(host, Area.ENVIRONMENT, Kind.PROGRAM, "/usr/local/sbin/preflight-gate", old, new, "gate"),
            Change(host, Area.ENVIRONMENT, Kind.FILE, "/etc/preflight/gate.json", None, policy, "gate"),
        ]

    assert shown(*gate("node01"), *gate("node02")) == [
        "node01…node02 (2 hosts)",
        "  ~ /usr/local/sbin/preflight-gate: a program of 2 KiB, mode 0755",
        "  + /etc/preflight/gate.json",
        "      +{",
        '      +  "host": "node01",',
        '      +  "undrain": false',
        "      +}",
        "      ! shown for node01; the others get their own addresses",
        "",
    ]


def test_of_a_file_that_was_left_alone_the_difference_is_shown() -> None:
    def left(host: str, found: str | None) -> StepResult:
        change = Change(host, Area.PORTS, Kind.FILE, "/etc/sysctl.conf", "a = 1\nb = 2\n", "a = 1\n", "r1")
        return StepResult(change, StepState.MOVED, found)

    mine = "a = 1\nb = 2\n" + "".join(f"# mine {n}\n" for n in range(9))
    assert [line.text for line in render_results([left("node01", mine), left("node02", mine + "x")], fold=fold)] == [
        "node01…node02: /etc/sysctl.conf: left alone, since it was changed in the",
        "  meantime; expected (-) and found (+) on node01:",
        *(f"      +# mine {n}" for n in range(6)),
        "      … and 3 more lines",
    ]
    assert [line.text for line in render_results([left("node01", None)], fold=fold)] == [
        "node01: /etc/sysctl.conf: left alone, since it was changed in the meantime;",
        "  expected (-) and found (+):",
        "      -a = 1",
        "      -b = 2",
    ]


def test_results_count_what_went_well_and_name_what_did_not() -> None:
    results = [
        StepResult(ports(), StepState.DONE),
        StepResult(ports("node02"), StepState.MOVED, "40000"),
        StepResult(ports("node03"), StepState.MOVED, "40000"),
        StepResult(rule("node03"), StepState.NOT_RUN),
    ]
    assert [line.text for line in render_results(results, fold=fold)] == [
        "1 change made on 1 host",
        f"node02…node03: {KEY}: left alone, since it was",
        "  changed in the meantime; expected 30000, found 40000",
        "node03: nftables inet filter input: not tried, since an earlier change failed",
    ]


def test_changes_of_a_host_that_end_alike_are_said_once() -> None:
    results = [
        StepResult(change, StepState.FAILED, message=f"{host}: no answer")
        for host in ("node01", "node02")
        for change in (ports(host), rule(host))
    ]
    assert [line.text for line in render_results(results, fold=fold)] == [
        f"node01…node02: {KEY} and 1 more change: failed: no",
        "  answer",
    ]


def test_a_check_is_fixed_where_it_complained_before_and_passes_now() -> None:
    def of(check: str, host: str, outcome: Outcome) -> Finding:
        return Finding(check, outcome, "…", host=host)

    before = [
        of("PRT101", "node01", Outcome.FAIL),
        of("PRT101", "node02", Outcome.FAIL),
        of("A", "node01", Outcome.PASS),
    ]
    after = [
        of("PRT101", "node01", Outcome.PASS),
        of("PRT101", "node02", Outcome.FAIL),
        of("A", "node01", Outcome.PASS),
    ]
    lines = render_fixed(before, after, {"PRT101": "Reserved ports"}, fold=fold)
    assert [line.text for line in lines] == ["fixed   PRT101  Reserved ports (node01)"]


# Is a new address taken?


def nics(**devices: dict[int, str]) -> ClusterFacts:
    """host → device index → "A/MASK", all with their link up."""
    unset = Reading()

    def device(index: int, text: str) -> HccnDevice:
        ip, _, mask = text.partition("/")
        return HccnDevice(index, Reading(ip), Reading(mask), Reading("UP"), unset, unset, unset, unset, unset)

    return ClusterFacts(
        {
            name: replace(NOTHING, hccn=Hccn(tuple(device(index, text) for index, text in here.items())))
            for name, here in devices.items()
        }
    )


def test_a_new_address_is_asked_for_from_its_rail_on_another_host() -> None:
    facts = nics(node01={}, node02={0: "10.0.0.2/255.255.255.0", 3: "10.0.0.5/255.255.255.0"})
    pings, notes = questions(Plan((address("node01", 3, None, "10.0.0.4/24"),)), facts)
    assert [(ping.host, ping.device, ping.address, ping.peer) for ping in pings] == [
        ("node02", 3, "10.0.0.4", "node01/3")
    ]
    assert notes == ()


def test_questions_are_spread_over_those_who_can_ask() -> None:
    facts = nics(
        node01={0: "10.0.0.1/255.255.255.0"}, node02={0: "10.0.0.2/255.255.255.0"}, node03={0: "10.0.0.3/255.255.255.0"}
    )
    changes = tuple(address(f"node{n:02}", 0, None, f"10.0.0.{n}/24") for n in range(4, 10))
    pings, _ = questions(Plan(changes), facts)
    assert sorted(ping.host for ping in pings) == ["node01", "node01", "node02", "node02", "node03", "node03"]


def test_where_nobody_has_an_address_yet_it_is_said_that_nobody_was_asked() -> None:
    plan = Plan(tuple(address("node01", device, None, f"10.0.{device}.1/24") for device in range(8)))
    pings, notes = questions(plan, nics(node01={}, node02={0: "10.7.0.2/255.255.255.0"}))
    assert pings == ()
    assert notes == (
        "cannot check whether the new addresses of node01/0, node01/1, node01/2, node01/3 and 4 more are "
        "free, since no device has an address in their subnets yet",
    )


def test_a_change_of_the_mask_alone_asks_nobody() -> None:
    facts = nics(node01={0: "10.0.0.1/255.255.0.0"}, node02={0: "10.0.0.2/255.255.255.0"})
    assert questions(Plan((address("node01", 0, "10.0.0.1/16", "10.0.0.1/24"),)), facts) == ((), ())


def test_an_address_that_a_recovery_brings_back_is_asked_for_too() -> None:
    lost = recovery("node01", 2, "address none gateway none", "address 10.0.2.1/24 gateway 10.0.2.254")
    stale = saved("node01", 3, "address none", "address 10.0.2.9/24")
    pings, notes = questions(Plan((lost, stale)), nics(node02={2: "10.0.2.2/255.255.255.0"}))
    assert [(ping.address, ping.peer) for ping in pings] == [("10.0.2.1", "node01/2")]
    assert notes == ()


def test_an_answer_names_who_asked_what_answered_and_who_has_it() -> None:
    facts = nics(node02={0: "10.0.0.2/255.255.255.0", 1: "10.0.0.4/255.255.255.0"})
    answered = Ping("node02", 0, "10.0.0.4", "node01/0", 3, 3, 0.1)
    stranger = Ping("node02", 0, "10.0.0.7", "node01/1", 3, 1, 0.1)
    silent = Ping("node02", 0, "10.0.0.8", "node01/2", 3, 0)
    assert taken((answered, stranger, silent), facts) == (
        "10.0.0.4, planned for node01/0, is in use: it answers a ping from node02/0. "
        "Current owner: device 1 of node02.",
        "10.0.0.7, planned for node01/1, is in use: it answers a ping from node02/0. "
        "Current owner: no device in this inventory.",
    )


def test_a_question_that_could_not_be_put_is_said() -> None:
    assert not_asked((Ping("node02", 0, "10.0.0.4", "node01/0", error="hccn_tool is not installed"),)) == (
        "cannot check from node02/0 whether 10.0.0.4 is free: hccn_tool is not installed",
    )


def test_hosts_that_were_not_reached_are_named_and_many_are_counted() -> None:
    facts = ClusterFacts({f"node{n:02}": Unreachable("timeout", f"node{n:02}: no answer", "…") for n in range(1, 9)})
    sentences = not_reached(facts)
    assert sentences[0] == "node01: no answer"
    assert sentences[-1] == "3 more hosts were not reached"
    assert len(sentences) == 6
    assert not_reached(ClusterFacts({"node01": NOTHING})) == ()


def test_what_could_not_be_looked_at_is_told_once_and_much_of_it_is_counted() -> None:
    def blind(check: str, host: str) -> Finding:
        return Finding(check, Outcome.UNKNOWN, f"{host}: could not be checked: nft failed", host)

    seen = Finding("PRT101", Outcome.FAIL, "node01: ports 60000 are not reserved", "node01")
    once = not_seen([seen, blind("FWL101", "node01"), blind("FWL102", "node01")])
    assert once == ("node01: could not be checked: nft failed",)
    many = not_seen([blind("FWL101", f"node{n}") for n in range(8)])
    assert (len(many), many[-1]) == (6, "3 more checks could not run")


def test_every_check_of_a_module_that_carries_changes_declares_their_area() -> None:
    """One that does not would have its findings shown by check and never fixed by configure."""
    carrying = [
        check
        for check in all_checks().values()
        if "Kind." in inspect.getsource(inspect.getmodule(check.function) or pytest.fail(check.id))
    ]
    assert carrying
    assert [check.id for check in carrying if check.configures is None] == []


def test_a_change_of_another_area_than_the_check_declares_is_a_bug() -> None:
    check = all_checks()["PRT101"]
    change = Change("node01", Area.FIREWALL, Kind.SYSCTL, "net.ipv4.ip_local_reserved_ports", "", "29500", check.id)
    with pytest.raises(ValueError, match="PRT101 carries a change of firewall"):
        Scribe(check, healthy_cluster()).finding(Outcome.FAIL, "node01: port 29500 is not reserved", change=change)
