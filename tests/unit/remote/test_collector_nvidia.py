"""The collector's section `nvidia`, and what is read from it: a made-up host whose nvidia-smi is a script."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.answers.nvidia import RawNvidia, nvidia
from preflight.facts.decode import decode
from preflight.facts.documents.capture import clean
from preflight.facts.documents.facts_document import dump, load
from preflight.facts.parsers.nvidia.nvidia_smi import FEW, Gpus, query
from preflight.facts.sections.nvidia import Nvidia
from preflight.facts.types import ClusterFacts, HostFacts, Missing
from preflight.model.cluster import Product
from tests.unit.collector import COLLECT, section, tool
from tests.unit.healthy import scene

SAID = Path(__file__).parents[2] / "cases" / "parsers"
ERRORS = SAID / "nvidia-smi.nvlink-errors" / "H100-one-link-counts.txt"
QUERY = SAID / "nvidia-smi.query" / "H100-driver-580.txt"
KMSG = """\
6,0,0,-;Linux version 6.1.0
4,812,61000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
4,900,99000000,-;NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
 SUBSYSTEM=pci
"""
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc\n"
DPKG = """\
Package: nvidia-fabricmanager-dev-535
Status: install ok installed
Version: 999.1.1-1

Package: nvidia-fabricmanager-535
Status: install ok installed
Priority: optional
Version: 535.183.01-0ubuntu0.22.04.1
"""


def device(root: Path, bus: str, class_: str, *, vendor: str = "0x10de", config: bytes = b"\xde\x10\x30\x23") -> None:
    folder = root / "pci" / bus
    folder.mkdir(parents=True)
    words = {"vendor": vendor, "class": class_, "current_link_width": "16", "max_link_width": "16"}
    for name, value in words.items():
        (folder / name).write_text(value + "\n", encoding="ascii")
    (folder / "config").write_bytes(config + bytes(60))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Two GPUs of which one fell off the bus, an NVSwitch, and somebody else's network card."""
    device(tmp_path, "0000:19:00.0", "0x030200")
    device(tmp_path, "0000:9b:00.0", "0x030200", config=b"\xff\xff\xff\xff")
    device(tmp_path, "0000:07:00.0", "0x068000")
    device(tmp_path, "0000:18:00.0", "0x020700", vendor="0x15b3")
    for name, text in (("kmsg", KMSG), ("version", MODULE), ("dpkg", DPKG)):
        (tmp_path / name).write_text(text, encoding="ascii")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnvidia-ml.so.535.183.01").touch()
    wants = tmp_path / "units" / "multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "nvidia-fabricmanager.service").symlink_to("/nowhere")
    (tmp_path / "units" / "nvidia-fabricmanager.service").touch()
    return tmp_path


def look(host: Path, smi: str, monkeypatch: pytest.MonkeyPatch, edit: Callable[[str], str] = str) -> Nvidia:
    tools = host / "bin"
    tools.mkdir(exist_ok=True)
    if smi:
        tool(tools, "nvidia-smi", smi)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")

    def moved(text: str) -> str:
        places = {
            '"/sys/bus/pci/devices"': "pci", '"/dev/kmsg"': "kmsg", '"/proc/driver/nvidia/version"': "version",
            '"/proc/1"': "init", '"/.dockerenv"': "dockerenv", '"/run/.containerenv"': "containerenv",
            '"/var/lib/dpkg/status"': "dpkg", '"/etc/systemd/system"': "units", '"/usr/lib64"': "lib",
        }  # fmt: skip
        for old, new in places.items():
            text = text.replace(old, repr(str(host / new)))
        return edit(text)

    raw = section("nvidia", "nvidia", moved)({}, time.monotonic() + 20)
    found = nvidia(decode(json.dumps(raw).encode(), RawNvidia))
    assert isinstance(found, Nvidia)
    return found


ANSWERS = (
    f'case "$*" in -q) cat {QUERY};; *-s) cat {SAID}/nvidia-smi.nvlink/*H100*.txt;; *-e) cat {ERRORS};; '
    "*) exit 3;; esac\n"
)


def test_what_tool_bus_files_and_kernel_say_comes_home_together(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = look(host, f"echo smi >>{host}/starts\n{ANSWERS}", monkeypatch)
    assert len((host / "starts").read_text(encoding="ascii").split()) == 4, "processes of a healthy host"
    assert seen.gpus.value and seen.gpus.value.gpus
    assert [(gpu.bus, gpu.width, gpu.answers) for gpu in seen.pci] == [
        ("0000:19:00.0", 16, True), ("0000:9b:00.0", 16, False)
    ]  # fmt: skip
    assert seen.switches == ("0000:07:00.0",)
    assert seen.module and (seen.module.version, seen.module.is_open) == ("535.183.01", False)
    assert seen.libraries == ("535.183.01",)
    assert (seen.fabric_manager.at_boot, seen.fabric_manager.version) == (True, "535.183.01")
    assert seen.fabric_manager.unit
    assert seen.log.value and seen.log.value.since == "driver"
    assert [(xid.bus, xid.code) for xid in seen.log.value.lines.xids] == [("0000:9b:00.0", 79)]
    assert seen.topology.error.startswith("nvidia-smi topo -m printed nothing")
    assert seen.nvlink_errors.value and seen.nvlink_errors.value.gpus[0].links[1].crc == 77


@pytest.mark.parametrize(
    ("file", "text", "contained"),
    [("nothing", "", False), ("dockerenv", "", True), ("init/environ", "PATH=/bin\0container=lxc\0", True),
     ("init/cgroup", "0::/kubepods/pod7\n", True), ("init/cgroup", "0::/init.scope\n", False)],
)  # fmt: skip
def test_the_collector_says_whether_it_looks_from_within_a_container(
    host: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, *, contained: bool
) -> None:
    monkeypatch.delenv("container", raising=False)
    (host / file).parent.mkdir(exist_ok=True)
    (host / file).write_text(text, encoding="ascii")
    assert look(host, "", monkeypatch).contained is contained


def test_where_systemd_has_no_unit_of_fabric_manager_it_is_told(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "units" / "nvidia-fabricmanager.service").unlink()
    assert not look(host, "", monkeypatch).fabric_manager.unit


def test_what_a_virtual_machine_has_of_the_GPUs_is_told(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: N802
    for bus, link, target in (
        ("0000:19:00.0", "driver", "drivers/vfio-pci"),
        ("0000:9b:00.0", "physfn", "0000:19:00.0"),
    ):
        (host / "pci" / bus / link).symlink_to(f"../{target}")
    seen = look(host, "", monkeypatch)
    assert [(gpu.driver, gpu.virtual) for gpu in seen.pci] == [("vfio-pci", False), (None, True)]


def test_a_hanging_tool_is_told_from_one_that_fails_and_the_rest_is_seen(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'case "$1" in -q) sleep 60 & wait;; *) echo "Failed to initialize NVML: Driver/library version mismatch"'
    seen = look(
        host,
        script + "; exit 18;; esac\n",
        monkeypatch,
        lambda text: text.replace("QUERY_SECONDS = 25", "QUERY_SECONDS = 2"),
    )
    assert seen.hung
    assert "did not finish in time" in seen.gpus.error
    assert "were upgraded under the loaded kernel module" in seen.topology.error
    assert len(seen.pci) == 2


def test_link_counts_that_hang_cost_nothing_else(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = look(
        host,
        f'case "$*" in *-e) sleep 60 & wait;; esac\n{ANSWERS}',
        monkeypatch,
        lambda text: text.replace("QUERY_SECONDS = 25", "QUERY_SECONDS = 2"),
    )
    assert seen.nvlink_errors.error == "nvidia-smi nvlink -e did not finish in time"
    assert seen.gpus.value and seen.nvlinks.value and not seen.hung


XML = SAID / "nvidia-smi.query" / "xml-with-processes.txt"
FEW_GPUS = SAID / "nvidia-smi.few" / "two-GPUs.txt"
# What nvidia-smi does by what stands behind it; it writes down what it was asked.
IN_TURN = {
    "as XML": (f'"-q -x") cat {XML};; *) echo nonsense', ["-q", "-q -x"], 1, "printed 'nonsense'"),
    "as XML behind a banner": (
        f'"-q -x") printf "\\357\\273\\277Welcome <to>\\n\\n"; cat {XML};; *) echo nonsense', ["-q", "-q -x"], 1,
        "printed 'nonsense'",
    ),
    "as XML that is cut": (f'"-q -x") head -c 2500 {XML};; *) echo nonsense', ["-q", "-q -x"], 1,
                           "is cut off or broken"),
    "by fewer values": (
        f'"-q -x") exit 9;; --query-gpu*) cat {FEW_GPUS};; -q) exit 9', ["-q", "-q -x", "--query-gpu"], 2,
        "the health of the GPUs is unknown",
    ),
    "not at all": ("*) echo No devices were found; exit 6", ["-q", "-q -x", "--query-gpu"], 0, "No devices were found"),
    "by -q alone": (f"-q) cat {QUERY}", ["-q"], 1, ""),
}  # fmt: skip


@pytest.mark.parametrize("how", IN_TURN)
def test_where_the_text_tells_of_no_gpu_it_is_asked_in_other_ways(
    host: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    answers, asked, gpus, said = IN_TURN[how]
    seen = look(host, f'echo "$*" >>{host}/asked; case "$*" in {answers};; esac\n', monkeypatch)
    starts = [line for line in (host / "asked").read_text(encoding="ascii").splitlines() if line.startswith("-")]
    assert [start.partition("=")[0] for start in starts] == asked
    assert len(seen.gpus.value.gpus if seen.gpus.value else ()) == gpus
    told = [seen.gpus.error] if seen.gpus.value is None else [missing.error for missing in seen.gpus.value.unread]
    assert any(said in error for error in told) if said else not told
    assert not seen.hung


def test_one_that_hangs_when_it_is_asked_again_is_told_and_not_asked_once_more(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'echo "$*" >>{host}/asked; case "$*" in "-q -x") sleep 60 & wait;; *) echo nonsense;; esac\n'
    seen = look(host, script, monkeypatch, lambda text: text.replace("QUERY_SECONDS = 25", "QUERY_SECONDS = 2"))
    assert seen.hung and "nvidia-smi -q -x did not finish in time" in seen.gpus.error
    assert "--query" not in (host / "asked").read_text(encoding="ascii")


def test_the_collector_asks_for_the_fields_that_are_read() -> None:
    assert f"--query-gpu={','.join(FEW)} " in (COLLECT / "nvidia.py").read_text(encoding="utf-8")


def test_without_tool_and_driver_everything_that_is_missing_is_said(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / "version").unlink()
    (host / "kmsg").unlink()
    seen = look(host, "", monkeypatch, lambda text: text.replace('find("journalctl")', "None"))
    assert seen.gpus.error == "nvidia-smi is not installed, or not on PATH"
    assert seen.module is None and not seen.hung
    assert "kmsg cannot be read" in seen.log.error


def test_a_log_that_the_kernel_has_overwritten_does_not_count_as_whole(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / "kmsg").write_text("6,5000,0,-;something\n" + KMSG.split("\n")[2] + "\n", encoding="ascii")
    seen = look(host, "", monkeypatch, lambda text: text.replace('find("journalctl")', "None"))
    assert seen.log.value and seen.log.value.since == "unknown"
    assert len(seen.log.value.lines.xids) == 1


def test_of_a_flood_of_lines_the_newest_are_kept_and_it_is_known_that_older_ones_are_not(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"4,{n},{n},-;NVRM: Rate limiting prints".ljust(127) + "\n" for n in range(8192)]  # 64 fill a read
    lines[-1] = "4,9999,9999,-;NVRM: Xid (PCI:0000:9b:00): 62, pid=7, name=python, halted\n"
    (host / "kmsg").write_text("".join(lines), encoding="ascii")
    seen = look(host, "", monkeypatch, lambda text: text.replace('find("journalctl")', "None"))
    assert seen.log.value and seen.log.value.since == "unknown"
    assert [xid.code for xid in seen.log.value.lines.xids] == [62]
    assert seen.log.value.lines.lines < 4200


def test_where_the_kernel_has_forgotten_journald_is_asked_and_four_processes_are_the_most(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / "kmsg").write_text("6,5000,0,-;something\n", encoding="ascii")
    said = "2025-02-23T16:24:18+0000 n1 kernel: NVRM: Xid (PCI:0000:9b:00): 48, pid=77, name=python, DBE"
    (host / "bin").mkdir()
    tool(host / "bin", "journalctl", f"echo journalctl >>{host}/starts; echo '{said}'; echo 'NVRM' | tr N M\n")
    seen = look(host, f"echo smi >>{host}/starts\n{ANSWERS}", monkeypatch)
    assert sorted((host / "starts").read_text(encoding="ascii").split()) == ["journalctl", "smi", "smi", "smi"]
    assert "was not run, because journalctl took its place" in seen.nvlink_errors.error
    assert seen.log.value and seen.log.value.since == "boot"
    assert [(xid.code, xid.last) for xid in seen.log.value.lines.xids] == [(48, "2025-02-23T16:24:18+0000")]


def test_no_name_of_a_process_makes_XML_of_the_text() -> None:  # noqa: N802
    text = QUERY.read_text(encoding="utf-8")
    whole = query(text + XML.read_text(encoding="utf-8"))
    assert whole == query(text)


def test_the_XML_is_found_behind_a_byte_order_mark_and_lines_of_a_login() -> None:  # noqa: N802
    text = XML.read_text(encoding="utf-8")
    assert {query(before + text) for before in ("", "\ufeff", "\ufeff \n", "Welcome\r\n\r\n\t")} == {query(text)}


@pytest.mark.parametrize("file", [QUERY, XML], ids=["text", "XML"])
def test_a_capture_without_serial_numbers_is_understood_as_well(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    whole, kept = query(text), query(clean(text))
    assert isinstance(whole, Gpus) and isinstance(kept, Gpus)
    assert kept.unread == whole.unread
    assert all(gpu.serial for gpu in whole.gpus) and not any(gpu.serial for gpu in kept.gpus)
    assert [replace(gpu, serial=None) for gpu in kept.gpus] == [replace(gpu, serial=None) for gpu in whole.gpus]


def test_the_section_is_of_one_product_and_survives_the_document() -> None:
    facts = scene({"cluster": {"product": "nvidia"}}).facts
    again = load(dump(facts))
    assert again == facts
    host = again.hosts["node01"]
    assert isinstance(host, HostFacts) and isinstance(host.nvidia, Nvidia)
    of_npus = ClusterFacts({"n1": HostFacts(*[Missing("no")] * 9)})
    (back,) = load(dump(of_npus)).hosts.values()
    assert isinstance(back, HostFacts) and back.nvidia is None and Product.ATLAS_A1.is_npu


@pytest.mark.parametrize(
    "junk",
    [{"pci": [["../../etc", "16", "16", True]]}, {"version": "\x1b[2J"}, {"libraries": ["\x1b"]},
     {"answers": {"-q": {"out": "\x00" * 5000, "err": "", "code": 0}}}, {"pci": [["0000:01:00.0", "255", "-1", True]]},
     {"log": {"text": "NVRM: Xid (PCI:zz): x\n", "whole": True, "trouble": ""}}],
)  # fmt: skip
def test_nonsense_is_missing_or_an_error_and_never_a_value(junk: dict[str, Any]) -> None:
    raw: dict[str, Any] = {
        "tool": True, "answers": {}, "pci": [], "switches": [], "version": None, "libraries": [],
        "fabric_manager": {"running": False, "at_boot": None, "package": None}, "persistence_daemon": False,
        "log": {"text": "", "whole": True, "trouble": ""},
    }  # fmt: skip
    found = nvidia(decode(json.dumps({**raw, **junk}).encode(), RawNvidia))
    if isinstance(found, Missing):
        assert found.error.isprintable()
    else:
        assert found.gpus.value is None and found.gpus.error.isprintable()
        assert found.module is None and found.libraries == ()
        assert all(gpu.width is None and gpu.width_max is None for gpu in found.pci)
