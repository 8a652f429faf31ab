"""examples/schedulers: each script runs as it stands, with a stand-in of the gate in the place of the real one, and of
PBS's `pbs` module. No PBS, LSF or Flux is here."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "schedulers"
GATE = "/usr/local/sbin/preflight-gate"
GOOD, BROKEN, CLOSED = "exit 0", "exit 1", "exit 3"
DAMAGED = "echo SyntaxError >&2; exit 1"  # as Python ends where the program is no Python
OWN_TROUBLE = ("exit 2", "exit 42", "exit 127", "kill -9 $$")
STAND_IN_PBS = '''
"""A stand-in of the module that PBS gives its hooks: accept and reject end the hook, as the real ones do."""
import json
import sys

LOG_DEBUG, ND_OFFLINE = 7, 1


class Vnode:
    state = comment = None


class Event:
    vnode_list = {"node01": Vnode()}

    def accept(self):
        self.end("accepted", "")

    def reject(self, why):
        self.end("rejected", why)

    def end(self, how, why):
        host = self.vnode_list["node01"]
        print(json.dumps([how, why, host.state, host.comment]))
        sys.exit(0)


def event():
    return Event()


def get_local_nodename():
    return "node01"


def logmsg(level, text):
    print(text, file=sys.stderr)
'''


def with_gate(name: str, folder: Path, does: str) -> Path:
    """The script, with a gate that `does` this."""
    gate = folder / "preflight-gate"
    says = "" if does == DAMAGED else 'echo "node01 is so"'
    gate.write_text(f'#!/bin/sh\n[ "$*" = "--local --context prolog" ] || exit 2\n{says}\n{does}\n')
    gate.chmod(0o755)
    text = (EXAMPLES / name).read_text()
    assert text.count(GATE) == 1
    script = folder / name
    script.write_text(text.replace(GATE, str(gate)))
    return script


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("lsf-preflight", {GOOD: 0, BROKEN: 66, CLOSED: 67, **dict.fromkeys(OWN_TROUBLE, 0)}),
        ("flux-preflight", {GOOD: 0, BROKEN: 1, CLOSED: 0, **dict.fromkeys(OWN_TROUBLE, 0)}),
    ],
)
def test_a_shell_script_ends_as_its_scheduler_reads_it(name: str, codes: dict[str, int], tmp_path: Path) -> None:
    for does, code in codes.items():
        script = with_gate(name, tmp_path, does)
        done = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=False)
        assert (does, done.returncode) == (does, code)
        assert "node01 is so" in done.stdout
        assert ("ended with exit code" in done.stderr) == (code == 0 and does != GOOD)


@pytest.mark.parametrize("name", ["lsf-preflight", "flux-preflight"])
def test_without_a_gate_jobs_begin(name: str, tmp_path: Path) -> None:
    script = with_gate(name, tmp_path, GOOD)
    (tmp_path / "preflight-gate").unlink()
    assert subprocess.run(["sh", str(script)], capture_output=True, check=False).returncode == 0
    assert (EXAMPLES / name).stat().st_mode & 0o111


def hook(folder: Path, does: str, *, offline: bool = False, there: bool = True) -> list[str | int | None]:
    """What became of the event: [accepted or rejected, why, the host's state, its comment]."""
    script = with_gate("pbs_preflight.py", folder, does)
    if offline:
        text = script.read_text()
        assert text.count("OFFLINE = False") == 1
        script.write_text(text.replace("OFFLINE = False", "OFFLINE = True"))
    if not there:
        (folder / "preflight-gate").unlink()
    (folder / "pbs.py").write_text(STAND_IN_PBS)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: list[str | int | None] = json.loads(done.stdout)
    return answer


def test_the_pbs_hook_rejects_what_is_closed_and_nothing_else(tmp_path: Path) -> None:
    said = "preflight: node01 is so"
    assert hook(tmp_path, GOOD) == ["accepted", "", None, None]
    assert hook(tmp_path, BROKEN) == ["rejected", said, None, None]
    assert hook(tmp_path, CLOSED) == ["rejected", said, None, None]
    for does in OWN_TROUBLE:
        assert hook(tmp_path, does)[0] == "accepted", does
    assert hook(tmp_path, GOOD, there=False)[0] == "accepted"


def test_the_pbs_hook_takes_a_broken_host_alone_out_of_service_and_only_where_it_is_told_to(tmp_path: Path) -> None:
    assert hook(tmp_path, BROKEN, offline=True) == [
        "rejected", "preflight: node01 is so", 1, "preflight: node01 is so",
    ]  # fmt: skip
    assert hook(tmp_path, CLOSED, offline=True)[2:] == [None, None]
    assert hook(tmp_path, "kill -9 $$", offline=True)[2:] == [None, None]


def test_the_pbs_hook_is_python_3_6() -> None:
    """PBS brings a Python of its own."""
    ast.parse((EXAMPLES / "pbs_preflight.py").read_text(), feature_version=(3, 6))


def test_a_damaged_gate_lets_jobs_begin(tmp_path: Path) -> None:
    for name in ("lsf-preflight", "flux-preflight"):
        script = with_gate(name, tmp_path, DAMAGED)
        assert subprocess.run(["sh", str(script)], capture_output=True, check=False).returncode == 0, name
    assert hook(tmp_path, DAMAGED)[0] == "accepted"
