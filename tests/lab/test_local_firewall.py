"""The firewall of the machine that preflight runs on: a person confirms the change on a terminal, or it is undone."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from preflight.lab import kernel
from tests.lab.booted import lab_host
from tests.lab.conftest import LabHandle, MakeLab
from tests.lab.sites import bring_preflight

pytestmark = pytest.mark.lab

FOLDER = Path("/home/root/here")
QUESTION = b"Does a new login work? [yes/N] "
ROWS, COLUMNS = 24, 80


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> LabHandle:
    """Two hosts; node01 has preflight and an inventory in which it is the local machine."""
    lab = make_lab(hosts=2, devices=0, product="cpu", firewall="nftables")
    bring_preflight(lab, FOLDER)
    common = re.sub(r"(?s)\[ssh\].*?\n\n", "", lab.inventory.read_text().split("[[hosts]]")[0])
    hosts = [f'[[hosts]]\nname = "{name}"\naddress = "{address}"\n' for name, address in lab.addresses.items()]
    text = f'{common}{hosts[0]}ssh.transport = "local"\n{hosts[1]}'
    lab.ssh("node01", f"cat > {FOLDER}/hosts.toml <<'END'\n{text}END\n")
    return lab


@pytest.fixture
def rules(lab: LabHandle) -> str:
    """The ruleset before the test."""
    return lab.ssh("node01", "nft list ruleset").stdout


class Terminal:
    """A terminal of 80 x 24 on which a user of node01 changes its firewall."""

    def __init__(self, lab: LabHandle, seconds: int) -> None:
        command = (
            f"cd {FOLDER} && PYTHONPATH=lib {sys.executable} -m preflight configure-firewall -y --limit node01"
            f" --confirm-within {seconds}"
        )
        ssh, *words = lab.ssh_command("node01", command)
        self.shown = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.execvp(ssh, [ssh, "-tt", *words])

    def read_until(self, text: bytes) -> None:
        while text not in self.shown:
            assert self._read(), self.shown.decode()

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self.pid, 0)

    def end(self) -> tuple[int, str]:
        """Return the exit code and all that was shown."""
        while self._read():
            pass
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), self.shown.decode()

    def _read(self) -> bool:
        assert select.select([self._terminal], [], [], 60)[0], self.shown.decode()
        chunk = b""
        with suppress(OSError):  # what reading a terminal ends with
            chunk = os.read(self._terminal, 4096)
        self.shown += chunk
        return bool(chunk)


def verdict(lab: LabHandle) -> str:
    """The host's verdict on its last run, empty while there is none."""
    links = sorted((lab_host(lab, "node01").root / "run/preflight").glob("*.verdict"))
    return str(links[-1].readlink()) if links else ""


def is_at_work(lab: LabHandle) -> bool:
    return (lab_host(lab, "node01").root / "var/lib/preflight/journal/open").is_symlink()


def test_silence_undoes_the_change_and_the_question_stays_on_the_screen(lab: LabHandle, rules: str) -> None:
    terminal = Terminal(lab, seconds=3)
    code, shown = terminal.end()
    assert code == 1
    question = shown[shown.index("node01: the firewall is changed") : shown.index("no answer in time")]
    assert re.match(r"node01: the firewall is changed\. The change is undone at \d\d:\d\d:\d\d, in 3 s\.", question)
    assert question.replace("\r", "").endswith(QUESTION.decode() + "\n"), "nothing is written over it"
    assert max(map(len, question.splitlines())) < COLUMNS
    assert "not confirmed" in shown
    assert lab.ssh("node01", "nft list ruleset").stdout == rules


@pytest.mark.parametrize("keys", [b"no\n", b"\n", b"\x04", b"\x03"], ids=["no", "Enter", "Ctrl-D", "Ctrl-C"])
def test_any_answer_but_yes_undoes_the_change(lab: LabHandle, rules: str, keys: bytes) -> None:
    terminal = Terminal(lab, seconds=4)
    terminal.read_until(QUESTION)
    assert "preflight" in lab.ssh("node01", "nft list ruleset").stdout
    terminal.type(keys)
    code, shown = terminal.end()
    assert code == (130 if keys == b"\x03" else 1), shown
    kernel.wait_until(lambda: not is_at_work(lab), 20, "it is not undone")
    assert lab.ssh("node01", "nft list ruleset").stdout == rules


def test_a_terminal_that_is_closed_undoes_the_change(lab: LabHandle, rules: str) -> None:
    terminal = Terminal(lab, seconds=4)
    terminal.read_until(QUESTION)
    terminal.close()
    kernel.wait_until(lambda: not is_at_work(lab), 20, "it is not undone")
    assert lab.ssh("node01", "nft list ruleset").stdout == rules


def test_yes_keeps_the_change(lab: LabHandle) -> None:
    terminal = Terminal(lab, seconds=30)
    terminal.read_until(QUESTION)
    terminal.type(b"yes\n")
    code, shown = terminal.end()
    assert code == 0, shown
    assert verdict(lab) == "confirmed"
    assert "preflight" in lab.ssh("node01", "nft list ruleset").stdout
