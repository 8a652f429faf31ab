"""Exceptions that a program survived, by the lines that it wrote after them. Pure.

Only an ordinary exception, or lack of memory, can be survived. After an error of a device, its driver or its
communicator, no program goes on with that device, whatever it logs.

Steps after a traceback prove nothing by themselves: output of print() may reach a file only as the process ends. So the
program has to log that it tries again or that it ended well, or a logger, which holds nothing back, has to log further
steps. If lines do not name their writer, a start script may log that all has ended, whatever the result. Then a step
has to be before that line. If a launcher reports there that a process ended badly, such lines prove nothing.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from preflight.diagnose.catalogue import ends_traceback
from preflight.diagnose.errors.launchers import ENDED_BADLY
from preflight.diagnose.errors.schedulers import CANCELLED, JOB_MEMORY
from preflight.diagnose.line import clean, parse_line
from preflight.diagnose.types import Role, Sign

AFTER = 64 << 10  # bytes after an exception that are inspected
_NEAR = 6  # lines of its writer, without tracebacks, in which it says that it tries again
_LAST_LINES = 10  # of a log, in which it says that the job finished
_LONGEST = 1000  # characters of a line
_YEAR = 1970  # only the presence of a time matters

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
# Advice, clean-up at the end, and steps that mixed precision leaves out: unrelated to the exception.
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
# Lines of a job that starts once more.
_STARTS = re.compile(
    r"\b(?:re-?start|relaunch|requeue|resum(?:e|ing)|restor(?:e|ing))|\bstarting worker group"
    r"|\b(?:re)?load(?:ed|ing)\b.{0,40}\bcheckpoint|\bnranks \d{1,6}\b|\b(?:attempt|retry) \d",
    re.IGNORECASE,
)
_OF_TRACEBACK = re.compile(  # bars begin with blanks, too
    r"(?:\[\w{1,12}\]:? ?)?(?:\s{2,}(?! *\d%)|Traceback |frame #|\w[\w.]{0,80}(?:Error|Exception)\b)"
)


def may_be_survived(sign: Sign, text: str) -> bool:
    """Return whether it is an exception that a program may catch: after a timeout, a waiting rank rarely goes on."""
    if sign.role not in (Role.OWN, Role.UNKNOWN) or not ends_traceback(sign, text):
        return False
    return sign.id in _FULL or not (_OF_DEVICES.match(sign.id) or _SAYS_DEVICE.search(text))


def may_be_restarted(sign: Sign) -> bool:
    """Return whether it reports an end that a launcher or scheduler may answer with another start."""
    return sign.role is Role.ENDED or sign.id in (*ENDED_BADLY, JOB_MEMORY, CANCELLED)


def restart_place(text: bytes) -> int:
    """Return the last place in the end of a log after which it shows that the job was started again and ended well.

    -1 if there is none. The log has to show a start, steps, and at the very end that the job finished. Steps alone may
    be of other ranks, and an exit code 0 of another command.
    """
    lines = [(place, line) for place, line in _lines(text, 0, len(text)) if line.strip()]
    finish = _last_place(lines[-_LAST_LINES:], _says_well)
    start = _last_place(lines, _STARTS.search)
    steps: set[str] = set()
    for place, line in reversed(lines):
        if match := _STEP.search(line):
            steps.add(match[1] or match[2])
        if len(steps) > 1:
            return min(place, start, finish)
    return -1


def _last_place(lines: Iterable[tuple[int, str]], shows: Callable[[str], object]) -> int:
    return max((place for place, line in lines if shows(line)), default=-1)


def _says_well(line: str) -> bool:
    return _WELL.search(line) is not None and not _NOT.search(line)


def _lines(text: bytes, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield place and text of each line that begins in this part of `text`."""
    place = begin
    for line in text[begin:end].splitlines(keepends=True):
        yield place, clean(line.decode("utf-8", "replace")).rstrip()
        place += len(line)


@dataclass(frozen=True)
class _Sign:
    """A line that may show that its writer went on.

    `is_step`: it has a step as loggers write it. `progress`: its step, if a logger wrote it or a progress bar.
    """

    place: int
    is_again: bool
    is_well: bool
    is_step: bool
    progress: str


class Below:
    """Lines below errors in a text, by writer (LogLine.tag). Each is read once, however many errors are above it."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._clear(0)

    def _clear(self, begin: int) -> None:
        self._upto = begin
        self._signs: dict[str, list[_Sign]] = defaultdict(list)
        self._unsorted: list[tuple[int, str]] = []  # lines of which the writer is not known yet
        self._places: dict[str, list[int]] = defaultdict(list)  # of all lines of a writer

    def went_on(self, begin: int, tag: str) -> bool:
        """Return whether the writer logs below `begin` that it went on."""
        steps: set[str] = set()
        any_step = False
        for sign in self._signs_below(begin, tag):
            if sign.is_again and self._is_near(begin, sign.place, tag):
                return True
            if sign.is_well and (tag or any_step):
                return True
            any_step = any_step or sign.is_step  # a bar is drawn once more as a program dies
            if sign.progress:
                steps.add(sign.progress)
            if len(steps) > 1:
                return True
        return False

    def _signs_below(self, begin: int, tag: str) -> Iterator[_Sign]:
        end = begin + AFTER
        self._read(begin, min(end, len(self._text)))
        signs = self._signs.get(tag, [])
        first = bisect_left(signs, begin, key=lambda sign: sign.place)
        return takewhile(lambda sign: sign.place < end, islice(signs, first, None))

    def _read(self, begin: int, end: int) -> None:
        if begin > self._upto:
            self._clear(begin)
        for place, line in _lines(self._text, self._upto, end):
            if line.strip() and not _OF_TRACEBACK.match(line):
                self._unsorted.append((place, line))
                self._take(place, line)
        self._upto = max(self._upto, end)

    def _take(self, place: int, raw: str) -> None:
        """Keep a line that may show that its writer went on."""
        step = _STEP.search(raw)
        if not (step or _WELL.search(raw) or _AGAIN.search(raw)):
            return
        line = parse_line(raw[:_LONGEST], _YEAR)
        if _NOT.search(line.text):
            return
        is_again = _AGAIN.search(line.text) is not None and not _ELSE.search(line.text)
        is_well = _WELL.search(line.text) is not None
        logged, drawn = step.groups("") if step else ("", "")
        progress = drawn or (logged if line.level == "INFO" else "")
        self._signs[line.tag].append(_Sign(place, is_again, is_well, bool(logged), progress))

    def _is_near(self, begin: int, place: int, tag: str) -> bool:
        """Return whether few lines of the writer are between both places."""
        for line_place, raw in self._unsorted:
            self._places[parse_line(raw[:_LONGEST], _YEAR).tag].append(line_place)
        self._unsorted.clear()
        places = self._places[tag]
        return bisect_left(places, place) - bisect_left(places, begin) < _NEAR
