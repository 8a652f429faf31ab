"""`preflight lab down` takes down all that is still there, whatever has gone, and ends with 0."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preflight.lab import kernel
from preflight.lab.spec import LabNames
from tests.lab.conftest import ROOT, LabHandle, preflight
from tests.lab.test_lab import lab_id, traces

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("make_lab")]
Damage = Callable[[LabHandle, LabNames, dict[str, Any]], object]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _kill_host(_: LabHandle, __: LabNames, status: dict[str, Any]) -> None:
    os.kill(status["hosts"][0]["pid"], signal.SIGKILL)


def _remove_cgroup(lab: LabHandle, _: LabNames, status: dict[str, Any]) -> None:
    lab.lab("break", "host-overloaded")
    _kill_host(lab, _, status)
    groups = list(Path("/sys/fs/cgroup").glob(f"preflight-{status['id']}-*"))
    groups += Path("/sys/fs/cgroup/cpu").glob(f"preflight-{status['id']}-*")
    kernel.wait_until(lambda: not any(_has_processes(group) for group in groups), 10, "the host's processes stay")
    for group in groups:
        group.rmdir()


def _has_processes(group: Path) -> bool:
    return bool((group / "cgroup.procs").read_text().split())


def _mount_below(lab: LabHandle, _: LabNames, __: dict[str, Any]) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", lab.dir / "hosts" / "node01" / "home"], check=True)


def _unname(_: LabHandle, names: LabNames, __: dict[str, Any]) -> None:
    """The namespace lives on with its processes, and no name leads to it."""
    path = kernel.NETNS / names.host("node01")
    subprocess.run(["umount", path], check=True)
    path.unlink()


def _leave_names_only(_: LabHandle, names: LabNames, __: dict[str, Any]) -> None:
    """As where `ip netns add` was killed between its two steps."""
    (kernel.NETNS / names.device("node01", 7)).touch()


DAMAGES: dict[str, Damage] = {
    "the controller's interface": lambda _, names, __: ip("link", "del", names.controller),
    "the management switch": lambda _, names, __: ip("netns", "del", names.management),
    "the fabric": lambda _, names, __: ip("netns", "del", names.fabric),
    "a device": lambda _, names, __: ip("netns", "del", names.device("node01", 0)),
    "the name of a host's namespace": _unname,
    "a namespace behind its name": _leave_names_only,
    "a host": _kill_host,
    "a cgroup": _remove_cgroup,
    "the hosts' files": lambda lab, _, __: shutil.rmtree(lab.dir / "hosts", ignore_errors=True),
    "the record": lambda lab, _, __: (lab.dir / "lab.json").unlink(),
    "half the record": lambda lab, _, __: os.truncate(lab.dir / "lab.json", 60),
    "all of the record but its name": lambda lab, _, __: os.truncate(lab.dir / "lab.json", 0),
    "the whole directory": lambda lab, _, __: shutil.rmtree(lab.dir, ignore_errors=True),
    "nothing: a mount has come": _mount_below,
    "nothing: a file is immutable": lambda lab, _, __: lab.ssh("node01", "chattr +i /etc/hostname"),
}


@pytest.mark.parametrize("gone", DAMAGES)
def test_down_takes_down_what_is_left(gone: str, tmp_path: Path) -> None:
    lab = LabHandle(tmp_path / "lab")
    lab.lab("up", "--hosts", "1", "--devices", "1", "--product", "atlas-a2", "--firewall", "none")
    status = lab.status
    assert traces(status["id"], lab.dir) != []
    DAMAGES[gone](lab, LabNames(status["id"]), status)
    down = lab.lab("down", check=False)
    assert (down.returncode, down.stderr) == (0, "")
    # Without a record it is not known whether the lab made its directory.
    assert [trace for trace in traces(status["id"], lab.dir) if trace != str(lab.dir)] == []
    assert not lab.dir.exists() or list(lab.dir.iterdir()) == []
    again = lab.lab("down", check=False)
    assert (again.returncode, again.stdout) == (0, f"there is no lab in {lab.dir}.\n")


@pytest.mark.parametrize("record", ["", "\0" * 40, '{\n "schema": 1,\n "id": "0f'])
def test_a_record_that_a_crash_spoilt_does_not_stand_in_the_way(record: str, tmp_path: Path) -> None:
    lab = LabHandle(tmp_path / "lab")
    lab.dir.mkdir()
    (lab.dir / "lab.json").write_text(record)
    (lab.dir / "mine").touch()
    down = lab.lab("down", check=False)
    assert (down.returncode, down.stderr) == (0, "")
    assert [path.name for path in lab.dir.iterdir()] == ["mine"]


def test_a_file_of_that_name_that_is_no_record_stays(tmp_path: Path) -> None:
    lab = LabHandle(tmp_path / "lab")
    lab.dir.mkdir()
    (lab.dir / "lab.json").write_text('{"name": "a lab of chemistry"}')
    assert lab.lab("down", check=False).returncode == 2
    assert (lab.dir / "lab.json").exists()


def test_a_mount_of_others_keeps_its_files(tmp_path: Path) -> None:
    lab, other = LabHandle(tmp_path / "lab"), tmp_path / "other"
    lab.lab("up", "--hosts", "1", "--firewall", "none")
    other.mkdir()
    (other / "file").touch()
    subprocess.run(["mount", "--bind", other, lab.dir / "hosts" / "node01" / "home"], check=True)
    lab.lab("down")
    assert (other / "file").exists()


def test_two_downs_at_once_both_end_well(tmp_path: Path) -> None:
    lab = LabHandle(tmp_path / "lab")
    lab.lab("up", "--hosts", "2", "--firewall", "none")
    name = lab_id(lab.dir)
    command = [sys.executable, "-m", "preflight", "lab", "down", "--dir", str(lab.dir)]
    downs = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}) for _ in range(3)]
    assert [down.wait() for down in downs] == [0, 0, 0]
    assert traces(name, lab.dir) == []


def test_down_after_an_up_that_was_killed_at_any_point(tmp_path: Path) -> None:
    """From before its directory is made until after its hosts are up."""
    killed = 0
    for number in range(16):
        lab = LabHandle(tmp_path / f"lab{number}")
        arguments = ["lab", "up", "--hosts", "2", "--devices", "2", "--product", "atlas-a2", "--dir", str(lab.dir)]
        up = subprocess.Popen(
            [sys.executable, "-m", "preflight", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
        )
        time.sleep(number * 0.07)
        killed += up.poll() is None
        up.kill()
        up.wait()
        names = [lab_id(lab.dir)] if (lab.dir / "lab.json").exists() else []
        assert lab.lab("down", check=False).returncode == 0
        assert [trace for name in names for trace in traces(name, lab.dir)] == []
        assert not lab.dir.exists() or list(lab.dir.iterdir()) == []
    assert killed > 3


@pytest.mark.parametrize("name", ["hosts.toml", "hosts", "id_ed25519"])
def test_up_writes_over_nothing(name: str, tmp_path: Path) -> None:
    """An operator's inventory in the directory was written over, and `down` removed it."""
    (tmp_path / name).write_text("mine")
    done = preflight("lab", "up", "--hosts", "1", "--firewall", "none", "--dir", tmp_path, check=False)
    assert (done.returncode, f"{tmp_path / name} already exists" in done.stderr) == (2, True)
    assert (tmp_path / name).read_text() == "mine"
    assert "no lab" in preflight("lab", "down", "--dir", tmp_path).stdout
    assert (tmp_path / name).read_text() == "mine"
