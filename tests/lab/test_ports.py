"""Reserved ports on real hosts: what is computed of the sysctl files is held against systemd-sysctl and sysctl
themselves, before and after `configure-ports`."""

import json
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from preflight.facts.collect import FactsRequest, collect
from preflight.facts.types import HostFacts, Sysctl
from preflight.inventory import load
from preflight.model.ports import PortSet
from preflight.rules.sysctl.load_order import LoadPath, accepted, after
from preflight.transport import Options, open_transport
from tests.lab.conftest import LabHandle, MakeLab, preflight

pytestmark = pytest.mark.lab

KEY = "net.ipv4.ip_local_reserved_ports"
KERNEL = "/proc/sys/net/ipv4/ip_local_reserved_ports"
ETC, RUN, LOCAL, LIB = "/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"
OWN = f"{ETC}/90-preflight.conf"
WANTED = PortSet.parse("29500,60000-60031")
BEFORE = PortSet.parse("4000,29500,60000-60031")  # reserved when a person loads the files


@dataclass(frozen=True)
class Layout:
    """Files of a host: path → text, "-> TARGET" for a link, "/" for a folder. `left`: what cannot be fixed."""

    story: str
    files: dict[str, str] = field(default_factory=dict)
    left: frozenset[LoadPath] = frozenset()


def singles(count: int, step: int = 2) -> str:
    return ",".join(str(port) for port in range(1000, 1000 + step * count, step))


LINK = {f"{ETC}/99-sysctl.conf": "-> ../sysctl.conf"}
LAYOUTS = (
    Layout("nothing at all"),
    Layout("sysctl.conf alone, which no boot reads", {"/etc/sysctl.conf": f"{KEY} = 8080\n"}),
    Layout("sysctl.conf with Debian's link", {**LINK, "/etc/sysctl.conf": f"# site\nvm.swappiness=1\n{KEY}=8080"}),
    Layout("a good drop-in, undone by sysctl.conf", {OWN: f"{KEY}={WANTED}\n", "/etc/sysctl.conf": f"{KEY}=\n"}),
    Layout("a vendor's list", {f"{LIB}/50-vendor.conf": f"{KEY}=9000\n"}),
    Layout(
        "a vendor's list behind ours",
        {f"{LIB}/99-vendor.conf": f"{KEY}=9000\n"},
        frozenset({LoadPath.BOOT, LoadPath.SYSTEM}),
    ),
    Layout("/usr/local/lib comes before /usr/lib", {f"{LOCAL}/95-x.conf": f"{KEY}=9000\n", f"{LIB}/95-x.conf": ""}),
    Layout("a masked name", {f"{ETC}/95-x.conf": "-> /dev/null", f"{LIB}/95-x.conf": f"{KEY}=9000\n"}),
    Layout("masked by a link to nowhere", {f"{ETC}/95-x.conf": "-> gone", f"{LOCAL}/95-x.conf": f"{KEY}=9000\n"}),
    Layout("masked by a folder", {f"{ETC}/95-x.conf": "/", f"{LIB}/95-x.conf": f"{KEY}=9000\n"}),
    Layout("/run hides /usr until boot", {f"{RUN}/95-x.conf": f"{KEY}=7000\n", f"{LOCAL}/95-x.conf": f"{KEY}=1"}),
    Layout("the kernel refuses the last of two", {f"{ETC}/95-x.conf": f"{KEY}=7000\n{KEY} = 7000, 8000\n"}),
    Layout("two files, one of them refused", {f"{ETC}/1.conf": f"{KEY}={WANTED}", f"{ETC}/2.conf": f"{KEY}=70000"}),
    Layout("a line that takes the key out", {OWN: f"{KEY}={WANTED}\n", f"{ETC}/95-x.conf": f"-{KEY}\n"}),
    Layout(
        "slashes, dashes, blanks, carriage returns",
        {f"{ETC}/a.conf": "  -net/ipv4/ip_local_reserved_ports\t=  7000  \r\n", f"{ETC}/b.txt": f"{KEY}=1\n"},
    ),
    Layout(
        "mixed separators and comments set nothing",
        {f"{ETC}/a.conf": f"net/ipv4.ip_local_reserved_ports=1\nnet.ipv4/ip_local_reserved_ports=1\n#{KEY}=2\n"},
    ),
    Layout("two links to one file", {f"{ETC}/10-a.conf": "-> 20-b.conf", f"{ETC}/20-b.conf": f"{KEY}=7000\n"}),
    Layout("100 single ports", {f"{ETC}/50-site.conf": f"{KEY} = {singles(100)}\n"}),
    Layout(
        "1,000 single ports, of which sysctl loads a part",
        {f"{ETC}/50-site.conf": f"{KEY} = {singles(1000)}\n"},
        frozenset({LoadPath.BOOT, LoadPath.SYSTEM}),
    ),
    Layout(
        "10,000 single ports in the file of others that sysctl -p loads",
        {f"{ETC}/50-site.conf": f"{KEY} = 7000\n", "/etc/sysctl.conf": f"{KEY} = {singles(10_000)}\n"},
        frozenset({LoadPath.BOOT, LoadPath.SYSTEM, LoadPath.CONF}),
    ),
    Layout("10,000 neighbours one by one", {f"{ETC}/50-site.conf": f"{KEY} = {singles(10_000, 1)}\n"}),
    Layout("a number in hexadecimal, and one in octal", {f"{ETC}/50-site.conf": f"{KEY} = 0x50,0x52-0x54,0130,\n"}),
    Layout("far to the right", {f"{ETC}/50-site.conf": f"{' ' * 60}{KEY}{' ' * 60}= 7000\n"}),
    Layout("a comment", {f"{ETC}/50-site.conf": f"{KEY} = 7000 # of the proxy\n"}, frozenset({LoadPath.BOOT})),
    Layout("a continued line", {f"{ETC}/50-site.conf": f"{KEY} = 7000,\\\n8000\n"}, frozenset({LoadPath.BOOT})),
    Layout("everything is well", {OWN: f"{KEY} = {WANTED}\n", **LINK, "/etc/sysctl.conf": "# empty\n"}),
)


def prepare(layout: Layout) -> str:
    """The shell script that makes a host's files those of the layout, and nothing else."""
    lines = [
        f"mountpoint -q {LIB} || mount -t tmpfs tmpfs {LIB}",
        f"rm -rf {ETC} {RUN} {LOCAL} /etc/sysctl.conf {LIB}/*",
        f"mkdir -p {ETC} {RUN} {LOCAL}",
    ]
    for path, text in layout.files.items():
        if text == "/":
            lines.append(f"mkdir {path}")
        elif text.startswith("-> "):
            lines.append(f"ln -s {text[3:]} {path}")
        else:
            lines.append(f"printf %s {shlex.quote(text)} > {path}")
    return "set -e\n" + "\n".join([*lines, "echo ready"])


LOAD = f"""
echo > {KERNEL}; mv {RUN} /run/away; /lib/systemd/systemd-sysctl; mv /run/away {RUN}; echo "boot $(cat {KERNEL})"
echo {BEFORE} > {KERNEL}; sysctl --system; echo "system $(cat {KERNEL})"
echo {BEFORE} > {KERNEL}; sysctl -p; echo "conf $(cat {KERNEL})"
echo > {KERNEL}
"""
WAYS = {"boot": LoadPath.BOOT, "system": LoadPath.SYSTEM, "conf": LoadPath.CONF}


NAMES = {f"node{number:02}": layout for number, layout in enumerate(LAYOUTS, 1)}
HOSTS = pytest.mark.parametrize("host", NAMES, ids=[layout.story for layout in LAYOUTS])
Ends = dict[str, dict[LoadPath, str]]  # host → way of loading → what is reserved afterwards


def everywhere(lab: LabHandle, scripts: dict[str, str]) -> dict[str, str]:
    """What each host's shell prints; some at a time."""
    with ThreadPoolExecutor(6) as pool:
        return dict(zip(scripts, pool.map(lambda host: lab.ssh(host, scripts[host]).stdout, scripts), strict=True))


def loaded(lab: LabHandle) -> Ends:
    """What the kernels have after the real programs have loaded the hosts' files."""
    ends: Ends = {}
    for host, out in everywhere(lab, dict.fromkeys(NAMES, LOAD)).items():
        words = [line.partition(" ") for line in out.splitlines()]
        ends[host] = {WAYS[first]: rest for first, _, rest in words if first in WAYS}
    return ends


def computed(lab: LabHandle) -> Ends:
    """What the facts say that the kernels would have."""
    cluster = load(lab.inventory)
    with open_transport(cluster, Options()) as transport:
        found = collect(FactsRequest(cluster, cluster.hosts, sections=["sysctl"]), transport, progress=None).hosts
    ends: Ends = {}
    for host, facts in found.items():
        assert isinstance(facts, HostFacts)
        assert isinstance(facts.sysctl, Sysctl)
        ends[host] = {way: str(after(way, facts.sysctl, BEFORE)) for way in WAYS.values()}
    return ends


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    made = make_lab(hosts=len(LAYOUTS), devices=1)
    ready = everywhere(made, {host: prepare(layout) for host, layout in NAMES.items()})
    assert set(ready.values()) == {"ready\n"}
    return made


@pytest.fixture(scope="module")
def before(lab: LabHandle) -> tuple[Ends, Ends]:
    return computed(lab), loaded(lab)


@HOSTS
def test_loading_is_computed_as_the_real_programs_do_it(before: tuple[Ends, Ends], host: str) -> None:
    assert before[0][host] == before[1][host]
    assert set(before[1][host]) == set(WAYS.values())


@pytest.fixture(scope="module")
def configured(lab: LabHandle, before: tuple[Ends, Ends]) -> dict[str, Any]:
    """The report of `configure-ports` on all hosts."""
    assert before
    done = preflight("configure-ports", "--inventory", lab.inventory, "-y", "-o", "json", check=False)
    assert done.returncode == 1, "some layouts cannot be fixed"
    body: dict[str, Any] = json.loads(done.stdout)
    return body


@pytest.fixture(scope="module")
def afterwards(lab: LabHandle, configured: dict[str, Any]) -> tuple[Ends, Ends]:
    assert configured
    return computed(lab), loaded(lab)


@HOSTS
def test_afterwards_every_way_of_loading_reserves_the_ports(
    configured: dict[str, Any], afterwards: tuple[Ends, Ends], host: str
) -> None:
    assert {change["state"] for change in configured["changes"] if change["host"] == host} <= {"done"}
    assert afterwards[0][host] == afterwards[1][host]
    short = {way for way, ports in afterwards[1][host].items() if WANTED - PortSet.parse(ports)}
    assert short == NAMES[host].left


@HOSTS
def test_what_was_reserved_by_any_way_of_loading_still_is(
    before: tuple[Ends, Ends], afterwards: tuple[Ends, Ends], host: str
) -> None:
    for way, ports in before[1][host].items():
        assert PortSet.parse(ports) - BEFORE <= PortSet.parse(afterwards[1][host][way])


def test_what_cannot_be_fixed_is_said_with_the_file_and_the_way_out(configured: dict[str, Any]) -> None:
    failed = {finding["host"]: finding for finding in configured["findings"] if finding["outcome"] == "fail"}
    assert set(failed) == {host for host, layout in NAMES.items() if layout.left}
    assert {finding["check"] for finding in failed.values()} == {"PRT102"}
    of_story = {layout.story: failed[host] for host, layout in NAMES.items() if layout.left}
    vendors = of_story["a vendor's list behind ours"]
    assert f"{LIB}/99-vendor.conf sets net.ipv4.ip_local_reserved_ports to" in vendors["summary"]
    assert f"copy {LIB}/99-vendor.conf to {ETC}, then let preflight add the ports" in vendors["remedy"]
    too_long = of_story["1,000 single ports, of which sysctl loads a part"]
    assert "The kernel accepts at most 4094 characters, so nothing is changed" in too_long["summary"]
    comment = of_story["a comment"]
    assert f"{ETC}/50-site.conf sets {KEY} to '7000 # of the proxy', which the kernel rejects" in comment["summary"]
    assert f"correct {KEY} in {ETC}/50-site.conf" in comment["remedy"]


@HOSTS
def test_a_file_that_was_refused_is_as_it_was(lab: LabHandle, configured: dict[str, Any], host: str) -> None:
    assert configured
    for path, text in NAMES[host].files.items() if NAMES[host].left else ():
        assert lab.ssh(host, f"cat {path}").stdout == text


@pytest.mark.usefixtures("configured")
def test_a_second_time_there_is_nothing_to_do(lab: LabHandle) -> None:
    hosts = [host for host, layout in NAMES.items() if not layout.left]
    everywhere(lab, dict.fromkeys(hosts, f"echo {BEFORE} > {KERNEL}"))
    again = preflight(
        "configure-ports", "--inventory", lab.inventory, "--limit", ",".join(hosts), "--dry-run", "--exit-code"
    )
    assert "nothing to change" in again.stdout


# What a host cannot take.


def configure(lab: LabHandle, host: str) -> "subprocess.CompletedProcess[str]":
    return preflight("configure-ports", "--inventory", lab.inventory, "--limit", host, "-y", check=False)


@pytest.mark.usefixtures("configured")
def test_where_proc_sys_is_read_only_the_way_out_is_named(lab: LabHandle) -> None:
    lab.ssh("node01", f"echo 4000 > {KERNEL}; mount -o remount,bind,ro /proc/sys/net")
    try:
        done = configure(lab, "node01")
    finally:
        lab.ssh("node01", "mount -o remount,bind,rw /proc/sys/net")
    assert done.returncode == 3
    said = " ".join(done.stdout.split())
    assert "node01: ports 29500,60000-60031 are not reserved, and /proc/sys is read-only, as in a container" in said
    assert f"start the container with docker run --sysctl {KEY}=4000,29500,60000-60031" in said
    assert lab.ssh("node01", f"cat {KERNEL}").stdout == "4000\n"


@pytest.mark.usefixtures("configured")
def test_a_list_that_one_write_cannot_take_is_refused_before_anything_is_written(lab: LabHandle) -> None:
    before = ",".join(str(port) for port in range(10001, 11360, 2))
    lab.ssh("node01", f"echo {before} > {KERNEL}")
    try:
        done = configure(lab, "node01")
        assert done.returncode == 1
        assert "The kernel accepts at most 4094 characters, so nothing is changed" in " ".join(done.stdout.split())
        assert lab.ssh("node01", f"cat {KERNEL}").stdout.strip() == before
    finally:
        lab.ssh("node01", f"echo {BEFORE} > {KERNEL}")


@pytest.mark.usefixtures("configured")
def test_what_cannot_be_read_is_named_and_no_file_is_written(lab: LabHandle) -> None:
    lab.ssh("node01", f"head -c 1100000 /dev/zero > {ETC}/95-big.conf; rm {OWN}")
    try:
        done = configure(lab, "node01")
        assert done.returncode == 3
        said = " ".join(done.stdout.split())
        assert f"{ETC}/95-big.conf reserves are unknown, so no file is changed: {ETC}/95-big.conf is larger" in said
        assert lab.ssh("node01", f"cat {OWN} || echo absent").stdout == "absent\n"
    finally:
        lab.ssh("node01", f"rm {ETC}/95-big.conf")


@pytest.mark.usefixtures("configured")
def test_a_range_that_reserving_would_eat_up_is_a_warning(lab: LabHandle) -> None:
    lab.ssh("node01", "echo 60000 60040 > /proc/sys/net/ipv4/ip_local_port_range")
    done = preflight("check", "--inventory", lab.inventory, "--limit", "node01", "--only", "PRT104", check=False)
    lab.ssh("node01", "echo 32768 60999 > /proc/sys/net/ipv4/ip_local_port_range")
    assert "9 of 41 ephemeral ports (60000-60040) are left for outgoing connections" in " ".join(done.stdout.split())


@pytest.mark.usefixtures("configured")
def test_the_kernel_reads_numbers_as_they_are_computed(lab: LabHandle) -> None:
    values = ["0x50", "0X50,0x52-0x54", "0120", "00", "08", "0x", "5,,6", ",5", "5,6,", "5 6", "6-5", "5-", "65536",
              "0x10000", "+5", "0" * 16 + "120", "0" * 18 + "120", "60000-0xEA70", "5\t", "5;6"]  # fmt: skip
    script = "\n".join(
        f"echo > {KERNEL}; printf %s {shlex.quote(value)} > {KERNEL} 2>&- && cat {KERNEL} || echo refused"
        for value in values
    )
    kernel = dict(zip(values, lab.ssh("node02", script).stdout.splitlines(), strict=True))
    lab.ssh("node02", f"echo {BEFORE} > {KERNEL}")
    ours = {value: accepted(value) for value in values if value.strip() == value}  # blanks around it no loader writes
    assert {value: "refused" if ports is None else str(ports) for value, ports in ours.items()} == {
        value: kernel[value] for value in ours
    }


# A range of HCCL's own.


@pytest.fixture(scope="module")
def ranged(make_lab: MakeLab) -> LabHandle:
    """Two hosts whose jobs set HCCL_HOST_SOCKET_PORT_RANGE."""
    made = make_lab(hosts=2, devices=2, product="atlas-a2")
    inventory = made.inventory.read_text()
    for key in ("hccl_base", "hccl_count"):
        inventory = re.sub(rf"^{key} = .*\n", "", inventory, flags=re.MULTILINE)
    made.inventory.write_text(inventory.replace("[ports]\n", '[ports]\nhccl_host_range = ["61000-61001"]\n'))
    return made


def test_a_range_of_hccls_own_is_reserved_let_through_and_used(ranged: LabHandle) -> None:
    preflight("configure", "--inventory", ranged.inventory, "-y")
    assert ranged.ssh("node01", f"cat {KERNEL}").stdout == "29500,61000-61001\n"
    assert "60000" not in ranged.ssh("node01", "nft list ruleset").stdout
    done = preflight("probe", "--inventory", ranged.inventory, "--idle")
    assert "all_reduce" in done.stdout
