"""sysctl's files: how they are read and edited, what each way of loading makes of them; tuned; the collector's look.

That loading is computed as the real programs do it is shown in tests/lab/test_ports.py."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from preflight.facts.parsers.linux import sysctl, tuned
from preflight.facts.parsers.linux.sysctl import OWN_FILE, intended_ports, port_list, settings
from preflight.facts.types import Reading, Sysctl, Tuned
from preflight.model.ports import PortSet
from preflight.rules.sysctl.load_order import LoadPath, accepted, after, in_one_write
from preflight.rules.sysctl.reserved_ports import repair, unreadable, with_value
from tests.unit.collector import section

ROOT = Path(__file__).parents[3]
KEY = "net.ipv4.ip_local_reserved_ports"
WANTED = PortSet.parse("29500,60000-60031")


def facts(files: Mapping[str, str], tuned: Tuned | None = None, now: str = "") -> Sysctl:
    """`files`: path → text, or "-> TARGET" for a link; a link shows its target's text."""
    found = []
    for path, text in files.items():
        target = text.removeprefix("-> ") if text.startswith("-> ") else ""
        found.append(sysctl.file(path, files.get(target, "") if target else text, target))
    return Sysctl(now, (32768, 60999), tuple(found), tuned=tuned)


# Lines.


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (f"{KEY} = 5\n", ["5"]),
        ("  net/ipv4/ip_local_reserved_ports\t=\t5-9  \r\nvm.swappiness=1\r\n", ["5-9"]),
        (f"-{KEY} = 5", ["5"]),
        (f"{KEY}=\n{KEY} = \n", ["", ""]),
        (f"-{KEY}\n", [None]),
        (f"{KEY}\n#{KEY}=1\n;{KEY}=2\n # {KEY} = 3\n", []),
        (f"{KEY}_x = 1\nx{KEY} = 1\nnet.ipv4/ip_local_reserved_ports=1\n", []),
        (f"{KEY} = 5 # not a comment\n", ["5 # not a comment"]),
        (f"{KEY} == 5\n", ["= 5"]),
        ("\0\1\ufffd\n", []),
        ("", []),
    ],
)
def test_lines_that_are_about_the_key(text: str, values: list[str | None]) -> None:
    assert [setting.value for setting in settings(text)] == values
    assert sysctl.reserved_ports(text) == Reading(values[-1] if values else None)


@pytest.mark.parametrize("blank", [" " * 500_000, "\t" * 500_000])
def test_a_line_of_blanks_costs_no_more_than_its_length(blank: str) -> None:
    """Host output is hostile: a pattern that goes back and forth would take hours here."""
    assert len(settings(f"{KEY} ={blank}5{blank}x{blank}\n{blank}{KEY}x=1\n{blank}-{blank}{blank}x")) == 1
    assert accepted(f"5{blank}x") is None


@pytest.mark.parametrize("value", ["", " ", ",", "5,", "70000", "5-3", "1 2", "0x10"])
def test_a_value_that_is_understood_is_kept_whether_the_kernel_takes_it_or_not(value: str) -> None:
    host = facts({"/etc/sysctl.conf": f"{KEY} = {value}\n", OWN_FILE: f"{KEY} = {value}\n"}, now=value)
    mending = repair(host, WANTED)
    assert mending.left == {}
    assert {edit.path for edit in mending.edits} == {"/etc/sysctl.conf", OWN_FILE}
    assert mending.united == (intended_ports(value) or PortSet()) | WANTED


@pytest.mark.parametrize("value", ["5-", "-", "x", "٣", "5" * 5000, "8080 # proxy", "8080,\\", '"8080"', "8080;9090"])
def test_a_value_that_is_not_understood_is_named(value: str) -> None:
    host = facts({"/etc/sysctl.conf": f"{KEY} = {value}\n"})
    assert unreadable(host) == [("/etc/sysctl.conf", value)]


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("0x50", "80"), ("0X50,0x52-0x54", "80,82-84"), ("0120", "80"), ("00", "0"), ("60000-0xEA70", "60000-60016"),
        (" 5,6,\n", "5-6"), ("0" * 16 + "120", "80"),
    ],
)  # fmt: skip
def test_numbers_are_read_as_the_kernel_reads_them(text: str, ports: str) -> None:
    """Tried on the kernel itself in tests/lab/test_ports.py."""
    assert str(port_list(text)) == ports


@pytest.mark.parametrize(
    "text", ["08", "0x", "5,,6", ",5", "5 6", "6-5", "5-", "65536", "0x10000", "+5", "0" * 18 + "120"]
)
def test_numbers_that_the_kernel_refuses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        port_list(text)


SINGLES = [",".join(str(port) for port in range(1000, 1000 + 2 * count, 2)) for count in (100, 1000, 10_000)]


@pytest.mark.parametrize("value", SINGLES)
@pytest.mark.parametrize("path", ["/etc/sysctl.conf", "/etc/sysctl.d/50-site.conf", "/etc/sysctl.d/99-site.conf"])
def test_a_list_of_any_length_counts_in_full(value: str, path: str) -> None:
    mending = repair(facts({path: f"{KEY} = {value}\n"}), WANTED)
    assert mending.united == PortSet.parse(value) | WANTED
    assert after(LoadPath.BOOT, facts({"/etc/sysctl.d/1.conf": f"{KEY}={value}"}), WANTED) == PortSet.parse(value)


def test_a_long_list_of_neighbours_is_merged() -> None:
    value = ",".join(map(str, range(1000, 5000)))
    (edit, *_) = repair(facts({OWN_FILE: f"{KEY} = {value}\n"}), WANTED).edits
    assert edit.after == f"{KEY} = 1000-4999,{WANTED}\n"


@pytest.mark.parametrize(
    ("before", "last", "taken"),
    [(4088, "60000", True), (4089, "60000", False), (4083, "60000-60001", True), (4084, "60000-60001", False)],
)
def test_procps_gets_as_much_to_the_kernel_as_one_write_takes(before: int, last: str, taken: bool) -> None:
    start = "0" * (before % 3) + "10," * (before // 3)
    assert in_one_write(f"{start}{last},10005,10005") == (start + last if taken else start[:-1])


def test_lines_that_somebody_added_to_our_file_stay() -> None:
    text = f"# ours\n{KEY} = 29500\nvm.swappiness = 1  # of the site\n"
    (edit, *_) = repair(facts({OWN_FILE: text}), WANTED).edits
    assert edit.after == text.replace("= 29500", f"= {WANTED}")
    (edit, *_) = repair(facts({OWN_FILE: "vm.swappiness = 1\n"}), WANTED).edits
    assert edit.after == f"vm.swappiness = 1\n{KEY} = {WANTED}\n"


@pytest.mark.parametrize("blank", [" " * 41, "\t" * 500])
def test_blanks_around_a_key_hide_it_from_nobody(blank: str) -> None:
    assert [setting.value for setting in settings(f"{blank}{KEY}{blank}=5\n")] == ["5"]


def test_a_key_that_was_taken_out_is_set_on_a_line_of_its_own() -> None:
    assert with_value(f"{KEY} = 1\r\n-{KEY}", PortSet.parse("7")) == f"{KEY} = 1\r\n-{KEY}\r\n{KEY} = 7\r\n"


# Ways of loading. {} reserves nothing; "before" is 1.

LOADING: list[tuple[dict[str, str], dict[LoadPath, str]]] = [
    ({}, {LoadPath.BOOT: "", LoadPath.SYSTEM: "1", LoadPath.CONF: "1"}),
    ({"/etc/sysctl.conf": f"{KEY}=5"}, {LoadPath.BOOT: "", LoadPath.SYSTEM: "5", LoadPath.CONF: "5"}),
    (
        {"/etc/sysctl.d/99-sysctl.conf": "-> /etc/sysctl.conf", "/etc/sysctl.conf": f"{KEY}=5"},
        {LoadPath.BOOT: "5", LoadPath.SYSTEM: "5", LoadPath.CONF: "5"},
    ),
    (
        {"/etc/sysctl.d/10-a.conf": f"{KEY}=5", "/usr/lib/sysctl.d/50-b.conf": f"{KEY}=6", "/etc/sysctl.conf": ""},
        {LoadPath.BOOT: "6", LoadPath.SYSTEM: "6", LoadPath.CONF: "1"},
    ),
    (
        {"/etc/sysctl.d/50-a.conf": "-> /dev/null", "/usr/lib/sysctl.d/50-a.conf": f"{KEY}=6"},
        {LoadPath.BOOT: "", LoadPath.SYSTEM: "1"},
    ),
    (
        {"/run/sysctl.d/50-a.conf": f"{KEY}=7", "/usr/lib/sysctl.d/50-a.conf": f"{KEY}=6"},
        {LoadPath.BOOT: "6", LoadPath.SYSTEM: "7"},
    ),
    ({"/etc/sysctl.d/1.conf": f"{KEY}=5\n{KEY}=70000"}, {LoadPath.BOOT: "", LoadPath.SYSTEM: "5"}),
    ({"/etc/sysctl.d/1.conf": f"{KEY}=5\n-{KEY}"}, {LoadPath.BOOT: "", LoadPath.SYSTEM: "5"}),
    ({"/etc/sysctl.d/1.conf": f"{KEY}=5\n{KEY}="}, {LoadPath.BOOT: "", LoadPath.SYSTEM: ""}),
]


@pytest.mark.parametrize(("files", "ends"), LOADING)
def test_what_is_reserved_after_each_way_of_loading(files: dict[str, str], ends: dict[LoadPath, str]) -> None:
    before = PortSet.parse("1")
    assert {way: str(after(way, facts(files), before)) for way in ends} == ends


@pytest.mark.parametrize(("files", "ends"), LOADING)
@pytest.mark.parametrize("own", [{}, {OWN_FILE: f"{KEY} = 29500\n"}])
def test_after_the_edits_every_way_reserves_the_ports_and_keeps_what_was(
    files: dict[str, str], ends: dict[LoadPath, str], own: dict[str, str]
) -> None:
    mending = repair(facts({**files, **own}), WANTED)
    edited = {**files, **own, **{edit.path: edit.after for edit in mending.edits}}
    again = repair(facts(edited), WANTED)
    assert (again.short, again.edits, mending.left) == ({}, (), {})
    for way, ports in ends.items():
        if way is LoadPath.BOOT:
            assert WANTED | PortSet.parse(ports) <= after(way, facts(edited), PortSet())


# tuned.


@pytest.mark.parametrize(
    ("reapply", "files", "end"),
    [
        (True, {}, "9"),
        (False, {}, "9"),
        (True, {"/etc/sysctl.d/1.conf": f"{KEY}=5"}, "5"),
        (False, {"/etc/sysctl.d/1.conf": f"{KEY}=5"}, "9"),
        (True, {"/usr/lib/sysctl.d/1.conf": f"{KEY}=5"}, "9"),
        (True, {"/etc/sysctl.d/1.conf": f"{KEY}=5", "/etc/sysctl.conf": f"{KEY}=6"}, "6"),
    ],
)
def test_tuned_sets_its_value_and_then_reads_the_administrators_files(
    reapply: bool, files: dict[str, str], end: str
) -> None:
    host = facts(files, Tuned("site", "/etc/tuned/site/tuned.conf", "9", reapply))
    assert str(after(LoadPath.TUNED, host, PortSet.parse("1"))) == end


VENDOR = "/usr/lib/tuned/vendor/tuned.conf"
SITE = "/etc/tuned/site/tuned.conf"


@pytest.mark.parametrize(
    ("active", "files", "value", "source"),
    [
        ("vendor", {VENDOR: f"[main]\nsummary=x\n[sysctl]\n{KEY}=9 # why\n"}, "9", VENDOR),
        ("vendor\n", {VENDOR: "[sysctl]\nvm.swappiness=1\n"}, None, ""),
        ("site", {VENDOR: f"[sysctl]\n{KEY}=9\n", SITE: "[main]\ninclude=vendor\n"}, "9", VENDOR),
        ("site", {VENDOR: f"[sysctl]\n{KEY}=9\n", SITE: f"[main]\ninclude = vendor\n[sysctl]\n{KEY} = 8\n"}, "8", SITE),
        ("site", {VENDOR: f"[sysctl]\n{KEY}=9\n", SITE: "[main]\ninclude=vendor\n[sysctl]\nreplace=1\n"}, None, ""),
        ("vendor site", {VENDOR: f"[sysctl]\n{KEY}=9\n", SITE: f"[net]\ntype=sysctl\n{KEY}='8'\n"}, "8", SITE),
        ("site", {SITE: f"[main]\ninclude=-gone\n[sysctl]\n{KEY}=8\n"}, "8", SITE),
        ("site", {"/usr/lib/tuned/site/tuned.conf": f"[sysctl]\n{KEY}=9\n", SITE: ""}, None, ""),
        ("site", {"/etc/tuned/profiles/site/tuned.conf": "[sysctl]\nnet/ipv4/ip_local_reserved_ports=9\n"}, "9",
         "/etc/tuned/profiles/site/tuned.conf"),
        ("site", {SITE: f"[main]\ninclude=site\n[sysctl]\n{KEY}=8\n"}, "8", SITE),
        ("site", {SITE: f"[sysctl]\n{KEY}=8\nenabled=0\n"}, None, ""),
        ("site", {VENDOR: f"[sysctl]\n{KEY}=9\n", SITE: f"[main]\ninclude=vendor\n[sysctl]\ndrop={KEY}\n"}, None, ""),
        ("site", {SITE: f"[script]\n{KEY}=8\n"}, None, ""),
    ],
)  # fmt: skip
def test_what_tuneds_active_profiles_set(active: str, files: dict[str, str], value: str | None, source: str) -> None:
    found = tuned.tuned(active, "", "", files)
    assert (found.value, found.source, found.error) == (value, source, "") if found and value else found is None
    assert not found or (found.reapply and found.text == files[source])


@pytest.mark.parametrize(
    ("active", "files", "error"),
    [
        ("gone", {VENDOR: ""}, "tuned profile gone was not found"),
        ("site", {SITE: "no section\n"}, f"{SITE} cannot be parsed: File contains no section headers."),
        ("site", {SITE: f"[sysctl]\n{KEY}=${{ports}}\n"}, f"{SITE} sets it by a variable, ${{ports}}"),
        ("site", {SITE: "[main]\ninclude=${base}\n"}, f"{SITE} includes a profile through a variable: ${{base}}"),
    ],
)
def test_what_tuned_does_is_not_guessed(active: str, files: dict[str, str], error: str) -> None:
    found = tuned.tuned(active, "", "", files)
    assert found
    assert found.error == error


@pytest.mark.parametrize(("main", "reapply"), [("", True), ("reapply_sysctl = 0\n", False), ("reapply_sysctl=1", True)])
def test_tuned_reads_the_files_again_unless_told_not_to(main: str, reapply: bool) -> None:
    found = tuned.tuned("", "site", main, {SITE: f"[sysctl]\n{KEY}=8\n"})
    assert found
    assert found.reapply is reapply


# The collector's look, on a tree of its own.


def look(root: Path) -> dict[str, Any]:
    """`look_sysctl`, with the absolute folders of its source redirected below `root`, and its paths without that."""

    def redirected(text: str) -> str:
        for folder in ("etc", "run", "usr", "lib"):
            text = text.replace(f'"/{folder}/', f'"{root}/{folder}/')
        return text

    found: dict[str, Any] = section("sysctl", "sysctl", redirected)({}, 0)
    for file in found["files"]:
        for name in ("path", "target", "error"):
            file[name] = file.get(name, "").replace(str(root), "")
    return found


def written(root: Path, tree: Mapping[str, str]) -> None:
    for name, text in tree.items():
        file = root / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def test_the_collector_sends_every_file_and_the_text_of_those_that_are_about_the_key(tmp_path: Path) -> None:
    written(tmp_path, {
        "/etc/sysctl.d/50-a.conf": f"{KEY} = 1\n",
        "/etc/sysctl.d/README": f"{KEY} = 1\n",
        "/etc/sysctl.d/90-preflight.conf": "# nothing\n",
        "/run/sysctl.d/20-b.conf": f"# {KEY} = 3\n",
        "/usr/local/lib/sysctl.d/50-a.conf": f"{KEY} = 2\n",
        "/usr/lib/sysctl.d/95-other.conf": "vm.swappiness = 1\n",
        "/etc/sysctl.conf": f"{KEY} = 5\n",
    })  # fmt: skip
    (tmp_path / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    found = look(tmp_path)
    assert [(file["path"], file["text"].replace(KEY, "KEY"), file["target"]) for file in found["files"]] == [
        ("/etc/sysctl.d/50-a.conf", "KEY = 1\n", ""),
        ("/etc/sysctl.d/90-preflight.conf", "# nothing\n", ""),
        ("/etc/sysctl.d/99-sysctl.conf", "KEY = 5\n", "/etc/sysctl.conf"),
        ("/run/sysctl.d/20-b.conf", "# KEY = 3\n", ""),
        ("/usr/local/lib/sysctl.d/50-a.conf", "KEY = 2\n", ""),
        ("/usr/lib/sysctl.d/95-other.conf", "", ""),
        ("/etc/sysctl.conf", "KEY = 5\n", ""),
    ]
    files = sysctl.relevant(sysctl.file(file["path"], file["text"], file["target"]) for file in found["files"])
    assert [file.path for file in files] == [
        "/etc/sysctl.d/50-a.conf", "/etc/sysctl.d/90-preflight.conf", "/etc/sysctl.d/99-sysctl.conf",
        "/usr/local/lib/sysctl.d/50-a.conf", "/etc/sysctl.conf",
    ]  # fmt: skip


def test_odd_things_in_a_folder_leave_the_rest_to_be_seen(tmp_path: Path) -> None:
    written(tmp_path, {"/etc/sysctl.d/50-a.conf": f"{KEY} = 1\n", "/etc/sysctl.d/60-big.conf": "#" * (1 << 20) + "#\n"})
    folder = tmp_path / "etc/sysctl.d"
    (folder / "10-folder.conf").mkdir()
    (folder / "20-null.conf").symlink_to("/dev/null")
    (folder / "30-nowhere.conf").symlink_to("nowhere")
    os.mkfifo(folder / "40-pipe.conf")
    written(tmp_path, {"/run/sysctl.d": "a file where a folder should be\n"})
    files = {file["path"]: file for file in look(tmp_path)["files"]}
    assert len(files) == 6
    assert [path for path, file in files.items() if file["text"]] == ["/etc/sysctl.d/50-a.conf"]
    errors = {path: file["error"] for path, file in files.items() if file["error"]}
    assert errors == {"/etc/sysctl.d/60-big.conf": "/etc/sysctl.d/60-big.conf is larger than 1024 KiB"}


def test_tuneds_profiles_are_sent_only_where_it_is_used_and_about_the_key(tmp_path: Path) -> None:
    assert look(tmp_path)["tuned"] is None
    written(tmp_path, {"/etc/tuned/active_profile": "site\n", SITE: "[sysctl]\nvm.swappiness=1\n", VENDOR: "[main]\n"})
    wants = tmp_path / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "tuned.service").symlink_to("/usr/lib/systemd/system/tuned.service")
    assert look(tmp_path)["tuned"] is None
    written(tmp_path, {SITE: f"[sysctl]\n{KEY}=1\n"})
    found = look(tmp_path)["tuned"]
    assert {path.replace(str(tmp_path), "") for path in found["files"]} == {SITE, VENDOR}
    assert (found["active"], found["post_loaded"], found["main"]) == ("site\n", "", "")
    (wants / "tuned.service").unlink()
    assert look(tmp_path)["tuned"] is None
