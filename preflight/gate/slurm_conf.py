"""The gate's lines of slurm.conf, and problems of those that are there. Pure, except that it reads paths.

The traps were measured on Slurm 22.05.8; the defaults of times are slurm.conf(5)'s of that release.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

GATE = "/usr/local/sbin/preflight-gate"
PROGRAM = "/usr/local/lib/preflight/gate"  # which GATE runs
LINES = f"""\
# preflight's gate: one program for all roles. Slurm sets its role in SLURM_SCRIPT_CONTEXT.
Prolog={GATE}
Epilog={GATE}
# Run it on all nodes of a job at once (Alloc). The job's script waits until all have ended (DeferBatch).
PrologFlags=Alloc,DeferBatch
# Requeue a job after a failed Prolog instead of holding it.
SchedulerParameters=nohold_on_prolog_fail
# A Prolog takes at most 9 s, the test of a job's nodes at most 105 s. This ends a Prolog that hangs.
PrologEpilogTimeout=120
# Check idle nodes every five minutes. Slurm ignores the exit code, so the gate drains nodes itself.
HealthCheckProgram={GATE}
HealthCheckInterval=300
HealthCheckNodeState=IDLE
"""
CONTROLLER_LINES = f"""\
# Test all nodes of a job together before anything runs on them. It needs /etc/preflight/controller.json and a restart
# of slurmctld. scontrol reconfigure is not enough.
PrologSlurmctld={GATE}
"""
EXPIRY_LINES = """\
# Optional. A requeued job waits 120 s until its credentials have expired. This line shortens the wait. But then nodes
# refuse jobs ("Job credential expired") if their clock is off by more, or if slurmd is busy for longer.
#AuthInfo=cred_expire=30
"""
NODE_SECONDS = 9  # longest time that a Prolog takes
PROOF_SECONDS = 105  # the controller's proof: 60 s, and 45 to ask Slurm and to leave
_DEFAULTS = {"MessageTimeout": 10, "BatchStartTimeout": 10}
_SCRIPTS = ("Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld", "TaskProlog", "TaskEpilog", "HealthCheckProgram")
_OURS = re.compile(r"\bpreflight")
_LINE = re.compile(r"\s*([A-Za-z]+)\s*=\s*(.*?)\s*$")


@dataclass(frozen=True)
class SlurmConfProblem:
    """A problem of slurm.conf. `line` is 0 if something is missing.

    A `severe` one opens the gate, or takes good nodes out of service.
    """

    file: str
    line: int
    text: str
    do: str
    severe: bool = True

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.text}. Fix: {self.do}"


@dataclass(frozen=True)
class SlurmSetting:
    """One setting. `key` in lower case, as Slurm compares them."""

    file: str
    line: int
    key: str
    value: str

    def problem(self, text: str, do: str, *, severe: bool = True) -> SlurmConfProblem:
        """Return a problem of this line."""
        return SlurmConfProblem(self.file, self.line, text, do, severe)


class Files(Protocol):
    """The machine on which the file is read."""

    def text(self, path: str) -> str | None:
        """Return the text of a file, None if there is no such file."""

    def why_not_run(self, path: str) -> str:
        """Return why a program could not be run, "" if it could."""


def settings(file: str, text: str) -> Iterator[SlurmSetting]:
    """Yield the lines KEY=VALUE, without comments; a line that ends in a backslash goes on in the next."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        joined += re.sub(r"(?<!\\)#.*", "", line)
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        if match := _LINE.match(joined):
            yield SlurmSetting(file, first, match[1].lower(), match[2])
        elif match := re.match(r"\s*include\s+(\S+)", joined, re.IGNORECASE):
            yield SlurmSetting(file, first, "include", match[1])
        joined, first = "", 0


def problems(file: str, text: str, files: Files) -> list[SlurmConfProblem]:
    """Return the problems of the gate in this slurm.conf and the files that it includes, in the order of lines."""
    problems_found: list[SlurmConfProblem] = []
    lines = list(_with_included(file, text, files, problems_found))
    last = {setting.key: setting for setting in lines}  # Slurm takes the last one
    problems_found += [*_scripts(lines, files), *_flags(file, last), *_times(file, last), *_health(last)]
    return sorted(problems_found, key=lambda problem: (problem.file != file, problem.file, problem.line))


def calls_controller(file: str, text: str, files: Files) -> tuple[str, ...]:
    """Return the files that make up this slurm.conf if the gate is its PrologSlurmctld, nothing otherwise."""
    lines = list(_with_included(file, text, files, []))
    last = {setting.key: setting for setting in lines}
    ours = "prologslurmctld" in last and _OURS.search(last["prologslurmctld"].value)
    return tuple(dict.fromkeys(setting.file for setting in lines)) if ours else ()


def _with_included(
    file: str, text: str, files: Files, found: list[SlurmConfProblem], depth: int = 0
) -> Iterator[SlurmSetting]:
    for setting in settings(file, text):
        yield setting
        if setting.key != "include":
            continue
        path = setting.value if setting.value.startswith("/") else f"{file.rpartition('/')[0] or '.'}/{setting.value}"
        inner = files.text(path) if depth < 8 else None
        if inner is None:
            why = "does not exist" if depth < 8 else "includes itself"
            text = f"Include {setting.value} {why}, so slurmctld does not start"
            found.append(setting.problem(text, "correct or remove the line"))
        elif not inner.strip():
            found.append(
                setting.problem(
                    f"Include {setting.value} is empty, so every Slurm command prints a warning",
                    "put a comment into the file",
                    severe=False,
                )
            )
        else:
            yield from _with_included(path, inner, files, found, depth + 1)


def _scripts(lines: Sequence[SlurmSetting], files: Files) -> Iterator[SlurmConfProblem]:
    """Yield programs that are missing, roles of another program, and roles that the gate does not have."""
    roles = {name.lower(): name for name in _SCRIPTS}
    by_role: dict[str, SlurmSetting] = {}
    for setting in (setting for setting in lines if setting.key in roles):
        role, before = roles[setting.key], by_role.get(setting.key)
        if before:
            yield setting.problem(
                f"{role} is already set to {before.value} on line {before.line}, and Slurm 22.05 runs only the last",
                "call both from one script",
            )
        by_role[setting.key] = setting
        if _OURS.search(setting.value):
            yield from _gate_as(role, setting, files)
    gates = {key for key, setting in by_role.items() if _OURS.search(setting.value)}
    if "taskprolog" in gates and "prolog" not in gates:
        yield by_role["taskprolog"].problem(
            "only TaskProlog calls the gate. It runs as the job's user, fails one task and drains no node",
            f"Prolog={GATE}",
        )
    if not gates & {"prolog", "prologslurmctld", "taskprolog"}:
        yield _no_gate_before_a_job(lines[0].file if lines else "", by_role.get("prolog"))


def _gate_as(role: str, setting: SlurmSetting, files: Files) -> Iterator[SlurmConfProblem]:
    """Yield the problems of a line that makes the gate a script of Slurm."""
    if " " in setting.value:
        yield setting.problem(
            f"{role} has options, which Slurm does not support. The gate reads its role from SLURM_SCRIPT_CONTEXT",
            f"{role}={GATE}",
        )
    elif why := files.why_not_run(setting.value):
        yield setting.problem(
            f"{role}: {setting.value} {why}, so it fails on every node, and Slurm drains them all",
            "preflight gate install",
        )
    elif setting.value == GATE and (why := files.why_not_run(PROGRAM)):
        yield setting.problem(f"{role}: its program {PROGRAM} {why}, so every job starts", "preflight gate install")
    if role in ("EpilogSlurmctld", "TaskEpilog"):
        yield setting.problem(f"the gate has no role {role}", "remove the line", severe=False)


def _no_gate_before_a_job(file: str, prolog: SlurmSetting | None) -> SlurmConfProblem:
    if prolog:
        return prolog.problem(
            f"Prolog is {prolog.value}, which is not the gate", f"call {GATE} in it and exit with its exit code"
        )
    return SlurmConfProblem(file, 0, "no Prolog is set, so nothing checks a node before a job", f"Prolog={GATE}")


def _setting(last: Mapping[str, SlurmSetting], key: str, file: str) -> SlurmSetting:
    """Return the setting, or one without a line and a value where the files do not have it."""
    return last.get(key) or SlurmSetting(file, 0, key, "")


def _words(setting: SlurmSetting) -> set[str]:
    return {word.strip().lower() for word in setting.value.split(",")}


def _flags(file: str, last: Mapping[str, SlurmSetting]) -> Iterator[SlurmConfProblem]:
    flags, has_prolog = _setting(last, "prologflags", file), "prolog" in last
    if has_prolog and not _words(flags) & {"alloc", "contain", "x11"}:  # the latter two imply Alloc
        yield flags.problem(
            "without PrologFlags=Alloc the Prolog runs with the first step on its node, after the script has begun",
            "PrologFlags=Alloc,DeferBatch",
        )
    elif has_prolog and "deferbatch" not in _words(flags):
        yield flags.problem(
            "without PrologFlags=DeferBatch the script begins as soon as the first node's Prolog has ended",
            "PrologFlags=Alloc,DeferBatch",
        )
    if "nohold" in _words(flags):
        yield flags.problem(
            "with PrologFlags=NoHold salloc does not wait for the Prologs", "remove NoHold", severe=False
        )
    parameters = _setting(last, "schedulerparameters", file)
    if has_prolog and "nohold_on_prolog_fail" not in _words(parameters):
        yield parameters.problem(
            "after a failed Prolog a job is requeued but held (launch_failed_requeued_held), so it does not run again",
            "SchedulerParameters=nohold_on_prolog_fail",
        )


def _times(file: str, last: Mapping[str, SlurmSetting]) -> Iterator[SlurmConfProblem]:
    yield from _script_timeout(file, last)
    for name, default in _DEFAULTS.items() if "prolog" in last else ():
        value = _seconds(last, name)
        if (default if value is None else value) <= NODE_SECONDS:
            yield _setting(last, name.lower(), file).problem(
                f"{name}={value} must be longer than a Prolog may take ({NODE_SECONDS} s)", f"{name}={default} or more"
            )
    credentials = _setting(last, "authinfo", file)
    expiry = re.search(r"cred_expire=(\d+)", credentials.value)
    if expiry and int(expiry[1]) < 30:
        yield credentials.problem(
            f"with cred_expire={expiry[1]} jobs fail on nodes with a clock that is off by {expiry[1]} s",
            "set 30 or more, except in tests",
            severe=False,
        )


def _script_timeout(file: str, last: Mapping[str, SlurmSetting]) -> Iterator[SlurmConfProblem]:
    needed = PROOF_SECONDS if "prologslurmctld" in last else NODE_SECONDS
    seconds = _seconds(last, "PrologEpilogTimeout")
    if seconds is None:
        yield SlurmConfProblem(
            file,
            0,
            "PrologEpilogTimeout is not set, so a script that hangs blocks its nodes forever",
            f"PrologEpilogTimeout={120 if needed > NODE_SECONDS else 30}",
        )
    elif seconds < needed:
        yield last["prologepilogtimeout"].problem(
            f"PrologEpilogTimeout={seconds} is shorter than the gate may take ({needed} s), and a Prolog that is "
            "killed drains its node",
            f"PrologEpilogTimeout={2 * needed if needed > 60 else 30}",
        )


def _health(last: Mapping[str, SlurmSetting]) -> Iterator[SlurmConfProblem]:
    program = last.get("healthcheckprogram")
    if program is None or not _OURS.search(program.value):
        return
    if not _seconds(last, "HealthCheckInterval"):
        yield program.problem(
            "without HealthCheckInterval, HealthCheckProgram runs only when slurmd starts",
            "HealthCheckInterval=300",
            severe=False,
        )
    states = last.get("healthchecknodestate")
    if states is None or "idle" not in states.value.lower():
        yield (states or program).problem(
            "HealthCheckNodeState is not IDLE, so the gate also checks nodes while jobs run on them",
            "HealthCheckNodeState=IDLE",
            severe=False,
        )


def _seconds(last: Mapping[str, SlurmSetting], name: str) -> int | None:
    """Return the number of seconds, None if it is not set, or set to a value that is no limit."""
    setting = last.get(name.lower())
    return int(setting.value) if setting and setting.value.isdecimal() and int(setting.value) < 65534 else None
