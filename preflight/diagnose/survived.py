"""Whether a program went on after an exception, by what it wrote after it. Pure.

That steps are told after a traceback proves nothing by itself: what print() wrote into a file may come out only as
the process ends. So it has to say that it tries again or that it ended well, or a logger, which holds nothing back,
tells of further steps. Where nothing tells who writes, a start script may say that all has ended, whatever became of
it; there a step is to stand before that.
"""

import re

from preflight.diagnose.line import clean, parsed

AFTER = 64 << 10  # bytes after an exception that are looked at
_NEAR = 12  # lines of its writer in which it says that it tries again
_YEAR = 1970  # only whether a line has a time is asked

_AGAIN = re.compile(
    r"\b(?:re-?try(?:ing)?|retried|(?:try(?:ing)?|tries) again|f[ae]ll(?:s|ing)? back|recover(?:ed|ing)|continuing)\b"
    r"|\bskip(?:s|ped|ping)?\b.{0,30}\b(?:batch|step|sample|iteration|item|request|file|document|example)"
    r"|\b(?:reduc|lower|halv|decreas|shrink)\w{0,4}\b.{0,40}\bbatch"
    r"|\bbatch(?:[ _-]?size)?\b.{0,40}\d\s{0,3}(?:->|→|=>|to)\s{0,3}\d",
    re.IGNORECASE,
)
_WELL = re.compile(
    r"\b(?:(?:pre|fine|re)?-?t(?:rain|un)ing|evaluation|inference|generation|all steps)\b"
    r".{0,20}\b(?:finished|completed?|done|succeeded)\b|\b(?:finished|completed) successfully\b"
    r"|\bexit(?:ed|s)?(?: with)?(?: code| status)?[ =:]{1,3}0\b",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\bg[ai]v(?:e|ing) up|exceeded|exhausted|no more|\bnot\b|n't\b|cannot|\bnever\b|abort|(?<!\b0 )\b(?:error|fail)",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"\b(?:step|iter|iteration|epoch|batch)\b\W{0,3}(\d{1,9})|\d%\|.{0,200}\| {1,12}(\d{1,9})/\d", re.IGNORECASE
)
_OF_TRACEBACK = re.compile(r"(?:\[\w{1,12}\]:? ?)?\s{2,}|Traceback |\w[\w.]{0,80}(?:Error|Exception)\b")


def went_on(after: str, tag: str) -> bool:
    """`after`: the text behind the exception; `tag`: who wrote it (see Line), whose lines alone are heard."""
    steps: set[str] = set()  # as loggers and progress bars tell them
    any_step = False
    near = _NEAR
    for raw in map(clean, after.splitlines()):
        if not raw.strip():
            continue
        step = _STEP.search(raw)
        says = step or _WELL.search(raw) or (near and _AGAIN.search(raw))
        if not says and not near:
            continue
        line = parsed(raw[:1000], _YEAR)
        if line.tag != tag:
            continue
        near = max(0, near - 1)
        if not says or _OF_TRACEBACK.match(raw) or _NOT.search(line.text):
            continue
        if near and _AGAIN.search(line.text):
            return True
        if _WELL.search(line.text) and (tag or any_step):
            return True
        any_step = any_step or bool(step and step[1])  # a bar is drawn once more as a program dies
        if step and (line.level == "INFO" or step[2]):
            steps.add(step[1] or step[2])
            if len(steps) > 1:
                return True
    return False
