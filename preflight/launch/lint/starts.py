"""Commands of a script that start a job, with their options, and the slips in these options. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from preflight.launch.lint.expand import assignment
from preflight.launch.lint.options import MODULES, OPTIONS, PROGRAMS, known, slip, spelled
from preflight.launch.lint.reader import DASHES, TALK
from preflight.launch.lint.types import JobStart, ScriptFault, ScriptSpot, ShellCommand, Word, WordPart

KEYWORDS = ("if", "then", "else", "elif", "do", "while", "until", "!", "{", "time")
_GLUED = re.compile(r"(?P<value>[^-\s=][^\s]*?)(?P<option>--[A-Za-z][A-Za-z_-]*)(?P<rest>=.*)?", re.DOTALL)
_GLUED_SHORT = re.compile(r"(?P<value>[0-9]+)(?P<option>-[A-Za-z]+)(?P<rest>)")  # MPI's: -npernode 8-x PATH
_JOINED = re.compile(r"(?P<option>--?[A-Za-z][A-Za-z_-]*[A-Za-z])(?P<value>[0-9]{1,9})")  # -np16
_MOST_OPTIONS = 5  # of Python itself, in front of its file
_LONGEST_SPLIT = 300  # characters of a word with a missing blank
_DASHED = re.compile(rf"[{DASHES}]{{1,8}}(?=[A-Za-z])")


def dashes(path: Path, commands: Sequence[ShellCommand]) -> tuple[tuple[ShellCommand, ...], list[ScriptFault]]:
    """Return the commands with plain dashes in front of options, and the other dashes as faults."""
    faults: list[ScriptFault] = []
    plain: list[ShellCommand] = []
    for command in commands:
        if _talks(command.words):
            plain.append(command)
            continue
        launcher = family_of(command.words)
        words = tuple(_with_dashes(path, word, launcher[0] if launcher else "", faults) for word in command.words)
        plain.append(replace(command, words=words))
    return tuple(plain), faults


def _with_dashes(path: Path, word: Word, family: str, faults: list[ScriptFault]) -> Word:
    """Return an option with plain dashes, and any other word as it is."""
    dashed = _DASHED.match(word.text)
    if not (dashed and dashed[0].strip("-") and word.bare):
        return word
    name, sign, value = word.text[dashed.end() :].partition("=")
    option = expected = spelled(family, name) if family else ""
    if not option.lstrip("-").startswith(name):
        option = f"--{name}"
        expected = f"{option}{sign}{value}"
    message = f"{word.text} begins with a typographic dash instead of -"
    do = "retype the dash. Editors and web pages turn -- into one long dash"
    faults.append(ScriptFault(path, word.spot, message, word.text, expected, do))
    return Word(word.spot, (WordPart(f"{option}{sign}{value}"),))


def _talks(words: Sequence[Word]) -> bool:
    """Return whether the arguments of a command are only text or names."""
    head = next((word.text for word in words if word.text not in KEYWORDS), "")
    return head.rpartition("/")[2] in TALK


def family_of(words: Sequence[Word]) -> tuple[str, int] | None:
    """Return the family of the first launcher among the words, and where its options begin."""
    if _talks(words):
        return None
    for at, word in enumerate(words):
        name = word.text.rpartition("/")[2]
        if name in PROGRAMS:
            return PROGRAMS[name], at + 1
        if at and words[at - 1].text == "-m" and word.text in MODULES:
            return MODULES[word.text], at + 1
        if re.fullmatch(r"python[0-9.]*", name) and _runs_file(words[at + 1 : at + 1 + _MOST_OPTIONS]):
            return "python", at + 1
    return None


def _runs_file(words: Sequence[Word]) -> bool:
    """Return whether Python runs a file with these arguments, rather than a module or a text."""
    texts = [word.text for word in words]
    file = next((text for text in texts if not re.fullmatch("-[A-Za-z]+", text)), "")
    return file.endswith(".py") and not {"-m", "-c"} & set(texts[: texts.index(file)])


def starts(path: Path, commands: Sequence[ShellCommand]) -> tuple[tuple[JobStart, ...], list[ScriptFault]]:
    """Return the job starts among the commands, with slips in their options corrected, and these slips."""
    jobs: list[JobStart] = []
    faults: list[ScriptFault] = []
    for command in commands:
        launcher = family_of(command.words)
        if launcher:
            family, at = launcher
            options = _OptionReader(path, family)
            pairs = [(word, pair) for word in command.words[:at] if (pair := assignment(word))]
            own = {**command.own, **{pair[0]: Word(word.spot, (WordPart(pair[1]),)) for word, pair in pairs}}
            job = options.start(command.words[at - 1], command.words[at:], own)
            jobs.append(replace(job, behind=command.end == "&"))
            faults += options.faults
    return tuple(jobs), faults


class _OptionReader:
    """A reader of the options of one launcher."""

    def __init__(self, path: Path, family: str) -> None:
        self._path, self._family = path, family
        self.faults: list[ScriptFault] = []

    def start(self, launcher: Word, operands: Sequence[Word], own: Mapping[str, Word]) -> JobStart:
        words = list(self._split(operands))
        if self._family == "python":
            return JobStart(self._family, launcher, {}, (), tuple(words), own)
        options: dict[str, tuple[Word, ...]] = {}
        passed: list[Word] = []
        at = 0
        while at < len(words) and words[at].text.startswith("-") and words[at].text != "--":
            name, values, count = self._option(words[at:])
            if name == "x":
                passed += values
            elif name:
                options[name] = values
            at += count
            if name in ("m", "module"):
                break
        if at < len(words) and words[at].text == "--":
            at += 1
        return JobStart(self._family, launcher, options, tuple(passed), tuple(words[at:]), own)

    def _option(self, words: Sequence[Word]) -> tuple[str | None, tuple[Word, ...], int]:
        """Return name and values of the first word's option, and the number of its words."""
        option, sign, value = words[0].text.partition("=")
        name = known(self._family, option) or self._slip(words[0], option)
        if sign:
            return name, (Word(words[0].spot, (WordPart(value),)),), 1
        count = OPTIONS[self._family].get(name or "", 0)
        return name, tuple(words[1 : 1 + count]), 1 + count

    def _slip(self, word: Word, option: str) -> str | None:
        meant = slip(self._family, option) if "$" not in option else None
        if meant:
            expected = spelled(self._family, meant)
            message = f"the launcher has no option {option}"
            do = f"write {expected}, if that is what you mean"
            self.faults.append(ScriptFault(self._path, word.spot, message, option, expected, do))
        return meant

    def _split(self, words: Sequence[Word]) -> Iterator[Word]:
        """Yield the words, with `VALUE--option` and `--option8` split where the launcher has such an option."""
        before = ""
        for word in words:
            plain = word.bare and len(word.text) < _LONGEST_SPLIT and self._family in OPTIONS
            if plain and (pair := self._joined(word.text)):
                yield from self._pair(word, pair, pair[1], "insert a blank")
                continue
            pair = self._glued(word.text, before) if plain else None
            before = word.text
            if pair:
                yield from self._pair(
                    word, pair, pair[1].partition("=")[0], "insert a blank between the value and the option"
                )
            else:
                yield word

    def _joined(self, text: str) -> tuple[str, str] | None:
        """Return option and value of `-np16`."""
        joined = _JOINED.fullmatch(text)
        if joined is None or known(self._family, text):
            return None
        takes = OPTIONS[self._family].get(known(self._family, joined["option"]) or "")
        return (joined["option"], joined["value"]) if takes == 1 else None

    def _glued(self, text: str, before: str) -> tuple[str, str] | None:
        """Return value and option of `8--option`; `before` is the word in front of it."""
        glued = _GLUED.fullmatch(text)
        if glued is None and self._family == "mpi" and before.startswith("-") and known(self._family, before):
            glued = _GLUED_SHORT.fullmatch(text)
        if glued is None or not known(self._family, glued["option"]):
            return None
        return glued["value"], glued["option"] + (glued["rest"] or "")

    def _pair(self, word: Word, pair: tuple[str, str], missing: str, do: str) -> Iterator[Word]:
        """Yield the two words of one, and report the blank that is missing before the second."""
        first, second = pair
        spot = ScriptSpot(word.spot.line, word.spot.column + len(first))
        message = f"a blank is missing before {missing}"
        self.faults.append(ScriptFault(self._path, spot, message, word.text, f"{first} {second}", do))
        yield Word(word.spot, (WordPart(first),))
        yield Word(spot, (WordPart(second),))
