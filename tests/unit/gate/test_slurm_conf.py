"""slurm.conf: the gate's lines, and the traps in a file that is there."""

from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.gate.slurm_conf import CONTROLLER_LINES, EXPIRY_LINES, GATE, LINES, PROGRAM, problems, settings

GOOD = LINES + CONTROLLER_LINES


class Machine:
    """Files by their paths; of programs the gate alone."""

    def __init__(self, files: dict[str, str] | None = None, programs: tuple[str, ...] = (GATE, PROGRAM)) -> None:
        self.files, self.programs = files or {}, programs

    def text(self, path: str) -> str | None:
        return self.files.get(path)

    def why_not_run(self, path: str) -> str:
        return "" if path in self.programs else "is not there"


def without(key: str) -> str:
    return "".join(line for line in GOOD.splitlines(True) if not line.startswith(f"{key}="))


def instead(key: str, value: str) -> str:
    return without(key) + f"{key}={value}\n"


# What stands in the file, and words of what is said of it.
TRAPS = {
    "no DeferBatch": (instead("PrologFlags", "Alloc"), "without PrologFlags=DeferBatch"),
    "no Alloc": (without("PrologFlags"), "without PrologFlags=Alloc"),
    "DeferBatch alone": (instead("PrologFlags", "DeferBatch"), "without PrologFlags=Alloc"),
    "no limit": (without("PrologEpilogTimeout"), "PrologEpilogTimeout is not set"),
    "no limit by number": (instead("PrologEpilogTimeout", "65534"), "PrologEpilogTimeout is not set"),
    "a short limit": (instead("PrologEpilogTimeout", "60"), "shorter than the gate may take (105 s)"),
    "jobs held": (without("SchedulerParameters"), "requeued but held"),
    "jobs held, other parameters": (instead("SchedulerParameters", "bf_interval=5"), "requeued but held"),
    "MessageTimeout": (GOOD + "MessageTimeout=5\n", "MessageTimeout=5 must be longer than a Prolog may take"),
    "BatchStartTimeout": (GOOD + "BatchStartTimeout=9\n", "BatchStartTimeout=9 must be longer than"),
    "two Prologs": (GOOD + "prolog=/opt/site/prolog\n", "is already set to /usr/local/sbin/preflight-gate on line 2"),
    "another's Prolog": (
        "Prolog=/opt/site/prolog\nPrologFlags=Alloc,DeferBatch\nSchedulerParameters=nohold_on_prolog_fail\n"
        "PrologEpilogTimeout=30\n",
        "Prolog is /opt/site/prolog, which is not the gate",
    ),
    "options": (instead("Prolog", f"{GATE} --local"), "Prolog has options"),
    "not there": (instead("Epilog", "/opt/preflight-gate"), "Epilog: /opt/preflight-gate is not there"),
    "TaskProlog in its place": (
        without("Prolog").replace(CONTROLLER_LINES, "") + f"TaskProlog={GATE}\n",
        "only TaskProlog",
    ),
    "an Include that is not there": (GOOD + "Include gone.conf\n", "Include gone.conf does not exist"),
    "an Include of itself": (GOOD + "Include loop.conf\n", "includes itself"),
}  # fmt: skip
NOTES = {
    "NoHold": (instead("PrologFlags", "Alloc,DeferBatch,NoHold"), "salloc does not wait"),
    "expiry": (GOOD + "AuthInfo=socket=/run/munge,cred_expire=5\n", "cred_expire=5"),
    "an empty Include": (GOOD + "Include empty.conf\n", "Include empty.conf is empty"),
    "health without interval": (without("HealthCheckInterval"), "runs only when slurmd starts"),
    "health of busy nodes": (instead("HealthCheckNodeState", "ANY"), "HealthCheckNodeState is not IDLE"),
    "health of all nodes": (without("HealthCheckNodeState"), "HealthCheckNodeState is not IDLE"),
    "a role that it does not have": (GOOD + f"TaskEpilog={GATE}\n", "the gate has no role TaskEpilog"),
}
FILES = {"/etc/slurm/empty.conf": "\n", "/etc/slurm/loop.conf": "Include loop.conf\n"}


@pytest.mark.parametrize(("text", "words"), TRAPS.values(), ids=TRAPS)
def test_each_trap_is_named_with_what_to_do(text: str, words: str) -> None:
    found = [one for one in problems("/etc/slurm/slurm.conf", text, Machine(FILES)) if one.severe]
    assert any(words in one.text and one.do for one in found), list(map(str, found))


@pytest.mark.parametrize(("text", "words"), NOTES.values(), ids=NOTES)
def test_what_harms_nobody_is_a_note(text: str, words: str) -> None:
    (found,) = problems("/etc/slurm/slurm.conf", text, Machine(FILES))
    assert words in found.text
    assert not found.severe


@pytest.mark.parametrize("text", [GOOD, GOOD + EXPIRY_LINES, LINES, GOOD.upper().replace(GATE.upper(), GATE)])
def test_our_own_lines_have_none(text: str) -> None:
    assert problems("/etc/slurm/slurm.conf", text, Machine()) == []


def test_a_front_without_its_program_opens_and_is_named() -> None:
    found = problems("/etc/slurm/slurm.conf", GOOD, Machine(programs=(GATE,)))
    assert len(found) == 4
    assert all(one.severe and f"its program {PROGRAM} is not there, so every job" in str(one) for one in found)


def test_a_problem_names_its_line() -> None:
    (found,) = problems("/etc/slurm/slurm.conf", instead("PrologFlags", "Alloc"), Machine())
    assert str(found).startswith("/etc/slurm/slurm.conf:16: without PrologFlags=DeferBatch")


def test_what_is_included_counts_and_has_its_own_lines() -> None:
    machine = Machine({"/etc/slurm/gate.conf": without("PrologFlags") + "PrologFlags=Alloc\n"})
    (found,) = problems("/etc/slurm/slurm.conf", "ClusterName=x\nInclude gate.conf\n", machine)
    assert (found.file, found.line) == ("/etc/slurm/gate.conf", 16)


LINES_OF = {
    "Prolog=/a # why": [("prolog", "/a", 1)],
    "  PROLOG = /a  ": [("prolog", "/a", 1)],
    "Prolog=/a \\\n /b\nEpilog=/c": [("prolog", "/a  /b", 1), ("epilog", "/c", 3)],
    "# Prolog=/a": [],
    "Prolog": [],
    "include x.conf": [("include", "x.conf", 1)],
}


@pytest.mark.parametrize(("text", "found"), LINES_OF.items())
def test_lines_are_read_as_slurm_reads_them(text: str, found: list[tuple[str, str, int]]) -> None:
    assert [(one.key, one.value, one.line) for one in settings("f", text)] == found


@pytest.mark.parametrize("text", ["", "\0" * 100, "=" * 1000, "Include \n" * 50, "Prolog=\nPrologFlags=,,,\n"])
def test_rubbish_is_read_without_a_word_of_python(text: str) -> None:
    assert problems("/x", text, Machine()) is not None


def test_the_lines_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "install", "slurm"]) == 0
    assert f"\nPrologSlurmctld={GATE}\n" in capsys.readouterr().out


def test_a_file_is_checked_on_the_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf, gate = tmp_path / "slurm.conf", tmp_path / "preflight-gate"
    conf.write_text(GOOD.replace(GATE, str(gate)))
    assert main(["gate", "install", "slurm", "--conf", str(conf)]) == 1
    assert f"wrong: {conf}:2: Prolog: {gate} does not exist" in capsys.readouterr().out
    gate.write_text("")
    assert main(["gate", "install", "slurm", "--conf", str(conf)]) == 1
    assert f"{gate} is not executable" in capsys.readouterr().out
    gate.chmod(0o755)
    gate.write_text("#!/no/such/python -IS\n")
    assert main(["gate", "install", "slurm", "--conf", str(conf)]) == 1
    assert f"{gate} starts with #!/no/such/python, which does not exist" in capsys.readouterr().out
    gate.write_text("#!/bin/sh\n")
    assert main(["gate", "install", "slurm", "--conf", str(conf)]) == 0
    assert "the gate is configured correctly" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["gone", "."])
def test_a_file_that_cannot_be_read_ends_with_2(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "install", "slurm", "--conf", str(tmp_path / name)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_a_slurm_conf_without_an_end_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "install", "slurm", "--conf", "/dev/zero"]) == 2
    assert "cannot read /dev/zero: this is not a regular file" in capsys.readouterr().err
