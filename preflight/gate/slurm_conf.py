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
# preflight's gate. One program in all roles; Slurm tells it which one by SLURM_SCRIPT_CONTEXT.
Prolog={GATE}
Epilog={GATE}
# On all nodes of a job at once and before its script (Alloc), which waits for all of them (DeferBatch).
PrologFlags=Alloc,DeferBatch
# A job whose node failed is requeued, not held.
SchedulerParameters=nohold_on_prolog_fail
# A Prolog takes 9 s at most, the proof of a job's nodes 105 s. Without this nothing ends one that hangs.
PrologEpilogTimeout=120
# Idle nodes, every five minutes. Slurm does not look at its exit code: it drains by itself.
HealthCheckProgram={GATE}
HealthCheckInterval=300
HealthCheckNodeState=IDLE
"""
CONTROLLER_LINES = f"""\
# All nodes of a job, proved together before anything runs on them; needs /etc/preflight/controller.json, and a restart
# of slurmctld: scontrol reconfigure does not take it.
PrologSlurmctld={GATE}
"""
EXPIRY_LINES = """\
# Optional. A requeued job waits until its credentials have expired, 120 s. Sooner: but a node whose clock is wrong by
# more than this, or a slurmd that is busy for longer, then refuses jobs ("Job credential expired").
#AuthInfo=cred_expire=30
"""
NODE_SECONDS = 9  # longest time that a Prolog takes
PROOF_SECONDS = 105  # the controller's proof: 60 s, and 45 to ask Slurm and to leave
_DEFAULTS = {"MessageTimeout": 10, "BatchStartTimeout": 10}
_SCRIPTS = ("Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld", "TaskProlog", "TaskEpilog", "HealthCheckProgram")
_OURS = re.compile(r"\bpreflight")
_LINE = re.compile(r"\s*([A-Za-z]+)\s*=\s*(.*?)\s*$")


@dataclass(frozen=True)
class Setting:
    """One setting. `key` in lower case, as Slurm compares them."""

    file: str
    line: int
    key: str
    value: str


@dataclass(frozen=True)
class Problem:
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
        return f"{place}: {self.text}; {self.do}"


class Files(Protocol):
    """The machine on which the file is read."""

    def text(self, path: str) -> str | None:
        """Return the text of a file, None if there is no such file."""

    def why_not_run(self, path: str) -> str:
        """Return why a program could not be run, "" if it could."""


def settings(file: str, text: str) -> Iterator[Setting]:
    """Yield the lines KEY=VALUE, without comments; a line that ends in a backslash goes on in the next."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        joined += re.sub(r"(?<!\\)#.*", "", line)
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        if match := _LINE.match(joined):
            yield Setting(file, first, match[1].lower(), match[2])
        elif match := re.match(r"\s*include\s+(\S+)", joined, re.IGNORECASE):
            yield Setting(file, first, "include", match[1])
        joined, first = "", 0


def problems(file: str, text: str, files: Files) -> list[Problem]:
    """Return the problems of the gate in this slurm.conf and the files that it includes, in the order of lines."""
    problems_found: list[Problem] = []
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


def _with_included(file: str, text: str, files: Files, found: list[Problem], depth: int = 0) -> Iterator[Setting]:
    for setting in settings(file, text):
        yield setting
        if setting.key != "include":
            continue
        path = setting.value if setting.value.startswith("/") else f"{file.rpartition('/')[0] or '.'}/{setting.value}"
        inner = files.text(path) if depth < 8 else None
        if inner is None:
            why = "is not there" if depth < 8 else "is included by itself"
            found.append(Problem(file, setting.line, f"Include {setting.value} {why}", "slurmctld does not start so"))
        elif not inner.strip():
            found.append(
                Problem(
                    file,
                    setting.line,
                    f"Include {setting.value} is empty",
                    "every Slurm command warns of it on stderr; put a comment into it",
                    severe=False,
                )
            )
        else:
            yield from _with_included(path, inner, files, found, depth + 1)


def _scripts(said: Sequence[Setting], files: Files) -> Iterator[Problem]:
    """Yield programs that are missing, roles of another program, and roles that the gate does not have."""
    roles = {name.lower(): name for name in _SCRIPTS}
    by_role: dict[str, Setting] = {}
    for setting in (setting for setting in said if setting.key in roles):
        role, before = roles[setting.key], by_role.get(setting.key)
        if before:
            yield Problem(
                setting.file,
                setting.line,
                f"{role} was set in line {before.line}, to {before.value}",
                "Slurm 22.05 runs the last one alone; call both from one script",
            )
        by_role[setting.key] = setting
        if not _OURS.search(setting.value):
            continue
        if " " in setting.value:
            yield Problem(
                setting.file,
                setting.line,
                f"{role} has options: a parse error, or all of it is the path",
                f"the role is told by SLURM_SCRIPT_CONTEXT; {role}={GATE}",
            )
        elif why := files.why_not_run(setting.value):
            yield Problem(
                setting.file,
                setting.line,
                f"{role}: {setting.value} {why}",
                "then it fails on every node, and Slurm drains them all; preflight gate install first",
            )
        elif setting.value == GATE and (why := files.why_not_run(PROGRAM)):
            yield Problem(
                setting.file,
                setting.line,
                f"{role}: {PROGRAM}, which it runs, {why}",
                "then it opens on every node; preflight gate install",
            )
        if role in ("EpilogSlurmctld", "TaskEpilog"):
            yield Problem(
                setting.file, setting.line, f"{role} is none of the gate's roles", "leave it out", severe=False
            )
    file = said[0].file if said else ""
    gates = {key for key, setting in by_role.items() if _OURS.search(setting.value)}
    if "taskprolog" in gates and "prolog" not in gates:
        yield Problem(
            by_role["taskprolog"].file,
            by_role["taskprolog"].line,
            "TaskProlog alone: it runs as the job's user when the job has begun, fails one task, and drains nobody",
            f"Prolog={GATE}",
        )
    if not gates & {"prolog", "prologslurmctld", "taskprolog"}:
        prolog = by_role.get("prolog")
        yield Problem(
            prolog.file if prolog else file,
            prolog.line if prolog else 0,
            f"Prolog is {prolog.value}, which is not the gate" if prolog else "no Prolog: nothing stands before a job",
            f"call {GATE} in it and end with its exit code" if prolog else f"Prolog={GATE}",
        )


def _words(last: Mapping[str, Setting], key: str) -> set[str]:
    return {word.strip().lower() for word in last[key].value.split(",")} if key in last else set()


def _flags(file: str, last: Mapping[str, Setting]) -> Iterator[Problem]:
    flags, at = _words(last, "prologflags"), last.get("prologflags")
    place = (at.file, at.line) if at else (file, 0)
    has_prolog = "prolog" in last
    if has_prolog and not flags & {"alloc", "contain", "x11"}:  # the latter two imply Alloc
        yield Problem(
            *place,
            "without PrologFlags=Alloc a Prolog runs with the first step on its node: the script has begun",
            "PrologFlags=Alloc,DeferBatch",
        )
    elif has_prolog and "deferbatch" not in flags:
        yield Problem(
            *place,
            "PrologFlags without DeferBatch: the script begins as soon as the first node's Prolog has ended",
            "PrologFlags=Alloc,DeferBatch",
        )
    if "nohold" in flags:
        yield Problem(
            *place, "PrologFlags=NoHold: salloc does not wait for the Prologs", "leave NoHold out", severe=False
        )
    if has_prolog and "nohold_on_prolog_fail" not in _words(last, "schedulerparameters"):
        parameters = last.get("schedulerparameters")
        yield Problem(
            parameters.file if parameters else file,
            parameters.line if parameters else 0,
            "a job whose Prolog failed is requeued and held (launch_failed_requeued_held): nobody runs it again",
            "SchedulerParameters=nohold_on_prolog_fail",
        )


def _times(file: str, last: Mapping[str, Setting]) -> Iterator[Problem]:
    needed = PROOF_SECONDS if "prologslurmctld" in last else NODE_SECONDS
    limit, seconds = last.get("prologepilogtimeout"), _seconds(last, "PrologEpilogTimeout")
    if seconds is None:
        yield Problem(
            file,
            0,
            "no PrologEpilogTimeout: a script that hangs holds its nodes for ever",
            f"PrologEpilogTimeout={120 if needed > NODE_SECONDS else 30}",
        )
    elif limit and seconds < needed:
        yield Problem(
            limit.file,
            limit.line,
            f"PrologEpilogTimeout={seconds} is less than the gate may take ({needed} s): it is killed, and a Prolog "
            "that is killed drains its node",
            f"PrologEpilogTimeout={2 * needed if needed > 60 else 30}",
        )
    for name, default in _DEFAULTS.items():
        place, value = last.get(name.lower()), _seconds(last, name)
        if "prolog" in last and (value if value is not None else default) <= NODE_SECONDS:
            yield Problem(
                place.file if place else file,
                place.line if place else 0,
                f"{name}={value} is not more than a Prolog may take ({NODE_SECONDS} s)",
                f"{name}={default} or more",
            )
    expire = re.search(r"cred_expire=(\d+)", last["authinfo"].value) if "authinfo" in last else None
    if expire and int(expire[1]) < 30:
        yield Problem(
            last["authinfo"].file,
            last["authinfo"].line,
            f"cred_expire={expire[1]}: jobs fail on nodes whose clock is wrong by {expire[1]} s",
            "30 or more, but in tests",
            severe=False,
        )


def _health(last: Mapping[str, Setting]) -> Iterator[Problem]:
    program = last.get("healthcheckprogram")
    if program is None or not _OURS.search(program.value):
        return
    if not _seconds(last, "HealthCheckInterval"):
        yield Problem(
            program.file,
            program.line,
            "HealthCheckProgram without HealthCheckInterval runs at slurmd's start alone",
            "HealthCheckInterval=300",
            severe=False,
        )
    if "idle" not in last["healthchecknodestate"].value.lower() if "healthchecknodestate" in last else True:
        place = last.get("healthchecknodestate", program)
        yield Problem(
            place.file,
            place.line,
            "HealthCheckNodeState is not IDLE: the gate looks at nodes on which jobs run",
            "HealthCheckNodeState=IDLE",
            severe=False,
        )


def _seconds(last: Mapping[str, Setting], name: str) -> int | None:
    """Return the number of seconds, None if it is not set, or set to a value that is no limit."""
    setting = last.get(name.lower())
    return int(setting.value) if setting and setting.value.isdecimal() and int(setting.value) < 65534 else None
