"""The program that writes a verdict on a host, in a folder that stands for the host's files."""

import errno
import fcntl
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.gate.publish import GATE
from preflight.transport.programs import source

publish = importlib.import_module("publish.main")
gate = importlib.import_module("gate.verdict")
SOURCE = source("publish", *GATE)


class Policy:
    """As much of one as the gate reads a verdict with."""

    host, config = "node01", "c0ffee"


def look(run: str, outcome: str = "pass") -> dict[str, Any]:
    problems = [{"check": "NPU101", "outcome": outcome, "device": 0, "summary": "x"}] if outcome == "fail" else []
    return {"run": run, "preflight": "0.1.0", "outcome": outcome, "checks": {"NPU101": outcome}, "problems": problems,
            "versions": {}, "max_age": 3600.0}  # fmt: skip


def request(root: Path, name: str = "check", run: str = "r1", **more: Any) -> dict[str, Any]:
    return {
        "marker": "mark",
        "root": str(root),
        "host": "node01",
        "config": "c0ffee",
        "looks": {name: look(run)},
    } | more


def start(asked: dict[str, Any], program: str = SOURCE) -> "subprocess.Popen[bytes]":
    """The program as it runs on a host."""
    loader = f"import sys; exec(compile(sys.stdin.buffer.read({len(program.encode())}), 'publish', 'exec'))"
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", loader], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    process.stdin.write(program.encode() + json.dumps(asked).encode())
    process.stdin.close()
    process.stdin = None
    return process


def error(asked: dict[str, Any]) -> str:
    """What it answers, run in this process."""
    said: str = publish.why_not(asked)
    return said


def published(root: Path) -> dict[str, Any]:
    """The looks that the gate believes."""
    looks: dict[str, Any] = gate.load_any(Policy, str(root), os.geteuid())[0]
    return looks


def folder(root: Path) -> Path:
    return root / "var/lib/preflight"


def file(root: Path) -> Path:
    return folder(root) / "verdict.json"


def names(place: Path) -> list[str]:
    return [path.name for path in place.iterdir()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {"etc/machine-id": "0123\n", "proc/sys/kernel/random/boot_id": "boot\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "var/lib").mkdir(parents=True)
    return tmp_path


def test_what_is_written_is_what_the_gate_believes_and_root_alone_reads(root: Path) -> None:
    out, err = start(request(root)).communicate()
    assert (out, err) == (b'\nmark 32\n{"error": "", "outdated": false}\n', b"")
    assert folder(root).stat().st_mode & 0o777 == 0o700
    assert file(root).stat().st_mode & 0o777 == 0o600
    found = published(root)["check"]
    assert gate.is_look(found)
    assert found["expires"] - found["time"] == 3600
    assert found["state"]["boot"] == "boot"
    assert "max_age" not in found
    assert json.loads(file(root).read_text())["machine"] == "0123"


def test_a_run_replaces_its_own_look_and_leaves_the_other(root: Path) -> None:
    for name, run in (("check", "r1"), ("probe", "r2"), ("check", "r3")):
        assert error(request(root, name, run)) == ""
    assert {name: found["run"] for name, found in published(root).items()} == {"check": "r3", "probe": "r2"}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace('"pass"', '"fail"'),
        lambda text: text[: len(text) // 2],
        lambda text: text[:0],
        lambda text: text + "[" * 100_000,
    ],
)
def test_a_damaged_verdict_is_not_kept(root: Path, spoil: Any) -> None:
    assert error(request(root, "probe")) == ""
    file(root).write_text(spoil(file(root).read_text()))
    assert error(request(root)) == ""
    assert set(published(root)) == {"check"}


@pytest.mark.parametrize("other", [{"config": "0ther"}, {"host": "node02"}])
def test_a_verdict_of_another_inventory_or_host_is_not_kept(root: Path, other: dict[str, str]) -> None:
    assert error(request(root, "probe", **other)) == ""
    assert error(request(root)) == ""
    assert set(published(root)) == {"check"}


def test_a_failure_of_before_the_inventory_changed_is_kept_until_it_is_cleared(root: Path) -> None:
    old = request(root, "probe", config="0ther")
    old["looks"]["probe"] = look("r0", "fail")
    assert error(old) == ""
    assert error(request(root)) == ""
    assert set(published(root)) == {"check", "probe"}
    assert error(request(root, looks={}, clear=True)) == ""
    assert set(published(root)) == {"check"}


def test_nothing_is_written_through_a_link(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    victim = elsewhere / "passwd"
    victim.write_text("root:x:0:0\n")
    folder(root).mkdir(0o700)
    file(root).symlink_to(victim)
    (folder(root) / ".verdict.json.partial").symlink_to(victim)
    assert error(request(root)) == ""
    assert not file(root).is_symlink()
    assert set(published(root)) == {"check"}
    assert victim.read_text() == "root:x:0:0\n"
    assert names(folder(root)) == ["verdict.json"]


@pytest.mark.parametrize("kind", ["link", "file", "dangling"])
def test_a_folder_that_is_none_of_ours_is_refused(root: Path, kind: str) -> None:
    (root / "elsewhere").mkdir()
    if kind == "file":
        folder(root).write_text("x")
    else:
        folder(root).symlink_to(root / ("elsewhere" if kind == "link" else "nowhere"))
    assert error(request(root)) == f"{folder(root)} is not a regular folder. Remove it"
    assert names(root / "elsewhere") == []


def test_a_folder_in_which_others_write_is_refused(root: Path) -> None:
    folder(root).mkdir()
    folder(root).chmod(0o777)
    assert "users other than root can write in" in error(request(root))
    assert names(folder(root)) == []


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_where_it_cannot_be_written_the_old_one_stays_and_that_is_said(
    root: Path, call: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert error(request(root, run="old")) == ""
    before = file(root).read_bytes()

    def fails(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        said = error(request(root, run="new"))
    assert said == f"/var/lib/preflight/verdict.json cannot be written: {os.strerror(code)}. The previous file was kept"
    assert file(root).read_bytes() == before
    assert names(folder(root)) == ["verdict.json"]
    assert error(request(root, run="new")) == ""


@pytest.mark.parametrize("at", ["os.fsync(file.fileno())", "os.rename(", "os.fsync(folder)"])
def test_killed_at_any_point_it_leaves_a_whole_verdict(root: Path, at: str) -> None:
    assert error(request(root, run="old")) == ""
    assert at in SOURCE
    killed = start(request(root, run="new"), SOURCE.replace(at, f"os.kill(os.getpid(), 9); {at}"))
    killed.communicate()
    assert killed.returncode == -9
    assert published(root)["check"]["run"] == ("new" if at == "os.fsync(folder)" else "old")
    assert error(request(root, "probe")) == ""
    assert set(published(root)) == {"check", "probe"}
    assert names(folder(root)) == ["verdict.json"]


def test_of_many_at_once_none_is_lost(root: Path) -> None:
    running = [start(request(root, name, f"{name}-{n}")) for n in range(4) for name in ("check", "probe")]
    assert [process.communicate()[1] for process in running] == [b""] * 8
    assert set(published(root)) == {"check", "probe"}


@pytest.mark.parametrize(
    ("policy", "outdated"),
    [
        (None, False),
        ('{"config": "c0ffee"}', False),
        ('{"config": "0ther"}', True),
        ("{}", True),
        ("not JSON", True),
    ],
)
def test_a_gate_that_goes_by_another_inventory_is_told(root: Path, policy: str | None, outdated: bool) -> None:
    if policy:
        (root / "etc/preflight").mkdir(0o755)
        (root / "etc/preflight/gate.json").write_text(policy)
    assert publish.outdated(request(root)) is outdated


def test_who_has_to_wait_too_long_says_for_whom(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "LOCK_SECONDS", 0.1)
    folder(root).mkdir(0o700)
    handle = os.open(folder(root), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert error(request(root)).startswith("another run publishes here")
    finally:
        os.close(handle)
    assert names(folder(root)) == []


def test_who_is_not_root_is_told_what_to_do(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(publish, "publish", refused)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert error(request(root)).endswith('It needs root. Set ssh.user = "root" or ssh.sudo = true in the inventory')


def test_an_operator_clears_failures_and_nothing_else(tmp_path: Path) -> None:
    clear = request(tmp_path, looks={}, clear=True)
    assert error(clear) == ""
    assert error(request(tmp_path, "check", looks={"check": look("r1", "fail")})) == ""
    assert error(request(tmp_path, "probe", run="r2")) == ""
    assert set(gate.load_any(Policy, str(tmp_path), os.getuid())[0]) == {"check", "probe"}
    for _ in range(2):
        assert error(clear) == ""
        (kept,) = gate.load_any(Policy, str(tmp_path), os.getuid())[0].items()
        assert (kept[0], kept[1]["run"]) == ("probe", "r2")
