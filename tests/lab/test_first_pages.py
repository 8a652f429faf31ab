"""The two pages that a newcomer starts with, line by line: the tutorial brings up its own lab; the stranger of
first-cluster.md has a wheel in a fresh environment, two servers (of a lab), a key, and nothing else."""

import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, MakeLab, preflight
from tests.lab.pages import Desk, assert_fits, steps

pytestmark = pytest.mark.lab

DOCS = ROOT / "docs"


def follow(desk: Desk, page: str) -> None:
    """Type all of the page's commands, in their order."""
    todo = list(steps((DOCS / page).read_text()))
    assert todo
    for step in todo:
        desk.run(step)


@pytest.mark.parametrize("page", ["tutorial.md", "first-cluster.md"])
def test_a_terminal_has_room_for_the_page(page: str) -> None:
    assert_fits(page, (DOCS / page).read_text(), most=200)


def test_the_tutorial(tmp_path: Path) -> None:
    path = f"{_programs(tmp_path)}:{Path(sys.executable).parent}:$PATH"
    desk = Desk(tmp_path, {"PATH": path, "PYTHONPATH": str(ROOT)})
    try:
        follow(desk, "tutorial.md")
        assert not (tmp_path / ".lab").exists()
    finally:
        preflight("lab", "down", "--dir", tmp_path / ".lab", check=False)


def test_a_stranger_with_two_servers(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(hosts=2, devices=8, product="atlas-a2")
    theirs = dict(zip(("192.168.1.21", "192.168.1.22"), lab.addresses.values(), strict=True))
    theirs["192.168.1.[21-22]"] = _range(list(lab.addresses.values()))
    desk = Desk(tmp_path, {"PATH": f"{_programs(tmp_path)}:$PATH", **_places()}, theirs)
    desk.write("hosts.txt", "192.168.1.21 slots=8\n192.168.1.22 slots=8\n")
    (tmp_path / ".ssh").mkdir(mode=0o700)
    key = tmp_path / ".ssh" / "id_ed25519"
    key.touch(mode=0o600)
    key.write_text((lab.dir / "id_ed25519").read_text())
    _clone(tmp_path / "preflight")
    follow(desk, "first-cluster.md")
    assert _of_preflight(_files()) <= _of_preflight(_packed(tmp_path)), "what the repository has the wheel lacks"
    installed = subprocess.run(
        [tmp_path / "venv/bin/python", "-c", "import preflight; print(preflight.__file__)"],
        capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}, cwd="/",
    )  # fmt: skip
    assert installed.stdout.startswith(str(tmp_path / "venv")), "the wheel is what answered"


def _programs(folder: Path) -> Path:
    """A folder with the `python3` that this one's environment was made with, in front of all others."""
    programs = folder / "bin"
    programs.mkdir()
    python = programs / "python3"
    base = getattr(sys, "_base_executable", sys.executable)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(base)} "$@"\n')
    python.chmod(0o755)
    return programs


def _places() -> dict[str, str]:
    """What the page's reader has of this machine's user: where pip looks. Its settings may be in the home."""
    home = Path.home()
    settings = [home / ".config/pip/pip.conf", home / ".pip/pip.conf"]
    found = [str(path) for path in settings if path.is_file()]
    named = {"PIP_CONFIG_FILE": found[0]} if found and "PIP_CONFIG_FILE" not in os.environ else {}
    return {"PYTHONPATH": "", "PIP_CACHE_DIR": str(home / ".cache/pip"), "PIP_DISABLE_PIP_VERSION_CHECK": "1", **named}


def _range(addresses: list[str]) -> str:
    """As hosts are shown together: 198.18.0.[11-12]."""
    (network, _, first), (_, _, last) = (address.rpartition(".") for address in addresses)
    return f"{network}.[{first}-{last}]"


def _files() -> list[str]:
    """What git would bring, as it stands here."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def _clone(folder: Path) -> None:
    """The repository once more: a build leaves its traces in it."""
    for name in _files():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)


def _packed(folder: Path) -> list[str]:
    """The files of the wheel that lies there."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        return packed.namelist()


def _of_preflight(names: list[str]) -> set[str]:
    return {name for name in names if name.startswith("preflight/")}
