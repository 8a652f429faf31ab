"""Whether a program went on after an exception, by what it wrote after it. Pure.

Only an ordinary exception, or want of memory, is survived: after an error of a device, its driver or its communicator
no program goes on with that device, whatever else is told.

That steps are told after a traceback proves nothing by itself: what print() wrote into a file may come out only as
the process ends. So it has to say that it tries again or that it ended well, or a logger, which holds nothing back,
tells of further steps. Where nothing tells who writes, a start script may say that all has ended, whatever became of
it; there a step is to stand before that. Where a launcher tells there that a process ended badly, that proves nothing.
"""

import re

from preflight.diagnose.catalogue import ends_traceback
from preflight.diagnose.errors.launchers import ENDED_BADLY
from preflight.diagnose.errors.schedulers import CANCELLED, JOB_MEMORY
from preflight.diagnose.line import clean, parsed
from preflight.diagnose.types import Role, Sign

AFTER = 64 << 10  # bytes after an exception that are looked at
_NEAR = 6  # lines of its writer, without tracebacks, in which it says that it tries again
_LAST_LINES = 10  # of a log, in which it says that the job finished
_YEAR = 1970  # only whether a line has a time is asked

_FULL = ("device-memory", "EI0011")  # of a GPU, of an NPU
_OF_DEVICES = re.compile(r"gpu-|nccl-|nvidia-|npu-|ai-c|sdma$|E[1-9A-Z]\d{4}|\d+$|Ascend$")  # ids of signs
_SAYS_DEVICE = re.compile(
    r"CUDA error|cuda runtime error|\bcudaError|\b[NH]CCL\b|\bNPU (?:function )?error|\bACL\b|\bECC\b|error code is"
)

_AGAIN = re.compile(
    r"\b(?:retrying|retried|will retry|retry \W{0,2}\d|(?:trying|tries|will try) again|f[ae]ll(?:s|ing)? back"
    r"|recover(?:ed|ing)|continuing)\b"
    r"|\bskip(?:s|ped|ping)?\b(?: \w{1,12}){0,3} (?:batch|step|sample|iteration|item|request|file|document|example)"
    r"(?:e?s)?\b(?=[.;!]|\W*(?:$|\d|due\b|because\b|after\b|and\b|for\b|of\b))"
    r"|\b(?:reduc|lower|halv|decreas|shrink)(?:ed|ing)\b.{0,40}\bbatch"
    r"|\bbatch(?:[ _-]?size)?\b.{0,40}\d\s{0,3}(?:->|→|=>|to)\s{0,3}\d",
    re.IGNORECASE,
)
# Advice, what is done at the end, and what mixed precision leaves out: nothing of the exception.
_ELSE = re.compile(
    r"\b(?:please|try(?! again)|consider|should|could|must|you|hint)\b"
    r"|clean(?:ed|ing)?[ -]?up|shut(?:ting)?[ -]?down|overflow",
    re.IGNORECASE,
)
_WELL = re.compile(
    r"\b(?:(?:pre|fine|re)?-?t(?:rain|un)ing|evaluation|inference|generation|all steps)\b"
    r".{0,20}\b(?:finished|completed?|done|succeeded)\b|\b(?:finished|completed) successfully\b"
    r"|\bexit(?:ed|s)?(?: with)?(?: code| status)?[ =:]{1,3}0\b|\bsuccessfully finished\b|\(100%\) done",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\bg[ai]v(?:e|ing) up|exceeded|exhausted|no more|\bnot\b|n't\b|cannot|\bnever\b|abort|(?<!\b0 )\b(?:error|fail)",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"\b(?:step|iter|iteration|epoch|batch)\b\W{0,12}(\d{1,9})|\d%\|.{0,200}\| {1,12}(\d{1,9})/\d", re.IGNORECASE
)
# Of a job that starts once more.
_STARTS = re.compile(
    r"\b(?:re-?start|relaunch|requeue|resum(?:e|ing)|restor(?:e|ing))|\bstarting worker group"
    r"|\b(?:re)?load(?:ed|ing)\b.{0,40}\bcheckpoint|\bnranks \d{1,6}\b|\b(?:attempt|retry) \d",
    re.IGNORECASE,
)
_OF_TRACEBACK = re.compile(  # bars begin with blanks, too
    r"(?:\[\w{1,12}\]:? ?)?(?:\s{2,}(?! *\d%)|Traceback |frame #|\w[\w.]{0,80}(?:Error|Exception)\b)"
)


def may_be_survived(sign: Sign, text: str) -> bool:
    """Whether it is an exception that a program may catch: who waits in vain rarely goes on."""
    if sign.role not in (Role.OWN, Role.UNKNOWN) or not ends_traceback(sign, text):
        return False
    return sign.id in _FULL or not (_OF_DEVICES.match(sign.id) or _SAYS_DEVICE.search(text))


def may_be_restarted(sign: Sign) -> bool:
    """Return whether it tells of an end that a launcher or scheduler may answer with another start."""
    return sign.role is Role.ENDED or sign.id in (*ENDED_BADLY, JOB_MEMORY, CANCELLED)


def ended_well(after: str) -> bool:
    """Return whether a job was started again and ended well, by the text behind its end: that it starts, steps, and at
    the very end that it finished. Steps alone may be of other ranks, and an exit code 0 of another command."""
    lines = [line for line in map(clean, after.splitlines()) if line.strip()]
    if not any(_STARTS.search(line) for line in lines):
        return False
    finished = any(_WELL.search(line) and not _NOT.search(line) for line in lines[-_LAST_LINES:])
    steps = {match[1] or match[2] for line in lines if (match := _STEP.search(line))}
    return finished and len(steps) > 1


def went_on(after: str, tag: str) -> bool:
    """`after`: the text behind the exception; `tag`: who wrote it (see Line), whose lines alone are heard."""
    steps: set[str] = set()  # as loggers and progress bars tell them
    any_step = False
    near = _NEAR
    for raw in map(clean, after.splitlines()):
        if not raw.strip() or _OF_TRACEBACK.match(raw):
            continue
        step = _STEP.search(raw)
        says = step or _WELL.search(raw) or (near and _AGAIN.search(raw))
        if not says and not near:
            continue
        line = parsed(raw[:1000], _YEAR)
        if line.tag != tag:
            continue
        is_near = near > 0
        near = max(0, near - 1)
        if not says or _NOT.search(line.text):
            continue
        if is_near and _AGAIN.search(line.text) and not _ELSE.search(line.text):
            return True
        if _WELL.search(line.text) and (tag or any_step):
            return True
        any_step = any_step or bool(step and step[1])  # a bar is drawn once more as a program dies
        if step and (line.level == "INFO" or step[2]):
            steps.add(step[1] or step[2])
            if len(steps) > 1:
                return True
    return False
