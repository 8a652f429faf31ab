"""Which commands of a script start a job, and with which options; what is wrong with the options as such. Pure."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from preflight.launch.lint.expand import assignment
from preflight.launch.lint.options import MODULES, OPTIONS, PROGRAMS, known, slip, spelled
from preflight.launch.lint.reader import DASHES, TALK
from preflight.launch.lint.types import Command, Fault, Part, Spot, Start, Word

KEYWORDS = ("if", "then", "else", "elif", "do", "while", "until", "!", "{", "time")
_GLUED = re.compile(r"(?P<value>[^-\s=][^\s]*?)(?P<option>--[A-Za-z][A-Za-z_-]*)(?P<rest>=.*)?", re.DOTALL)
_GLUED_SHORT = re.compile(r"(?P<value>[0-9]+)(?P<option>-[A-Za-z]+)(?P<rest>)")  # MPI's: -npernode 8-x PATH
_JOINED = re.compile(r"(?P<option>--?[A-Za-z][A-Za-z_-]*[A-Za-z])(?P<value>[0-9]{1,9})")  # -np16
_MOST_OPTIONS = 5  # of Python itself, in front of its file
_DASHED = re.compile(rf"[{DASHES}]{{1,8}}(?=[A-Za-z])")


def dashes(path: Path, commands: tuple[Command, ...]) -> tuple[tuple[Command, ...], list[Fault]]:
    """The commands with plain dashes in front of options, and where there were others."""
    faults: list[Fault] = []

    def mended(word: Word, family: str) -> Word:
        wrong = _DASHED.match(word.text)
        if not (wrong and wrong[0].strip("-") and word.bare):
            return word
        name = word.text[wrong.end() :]
        right = spelled(family, name.partition("=")[0]) if family else f"--{name}"
        right = right if right.lstrip("-").startswith(name.partition("=")[0]) else f"--{name}"
        faults.append(
            Fault(
                path, word.spot, f"{word.text} begins with another dash than an option does", word.text, right,
                "type the dash anew: editors and web pages turn -- into one long dash",
            )
        )  # fmt: skip
        return Word(word.spot, (Part(right.partition("=")[0] + "".join(name.partition("=")[1:])),))

    done = []
    for command in commands:
        if _talks(command.words):
            done.append(command)
            continue
        found = family_of(command.words)
        family = found[0] if found else ""
        done.append(replace(command, words=tuple(mended(word, family) for word in command.words)))
    return tuple(done), faults


def _talks(words: tuple[Word, ...]) -> bool:
    """Whether the command only speaks of what stands behind it."""
    head = next((word.text for word in words if word.text not in KEYWORDS), "")
    return head.rpartition("/")[2] in TALK


def family_of(words: tuple[Word, ...]) -> tuple[str, int] | None:
    """(family, where its options begin) of the first launcher among the words."""
    if _talks(words):
        return None
    for at, word in enumerate(words):
        name = word.text.rpartition("/")[2]
        if name in PROGRAMS:
            return PROGRAMS[name], at + 1
        if at and words[at - 1].text == "-m" and word.text in MODULES:
            return MODULES[word.text], at + 1
        if re.fullmatch(r"python[0-9.]*", name):
            rest = [it.text for it in words[at + 1 : at + 1 + _MOST_OPTIONS]]
            file = next((text for text in rest if not re.fullmatch("-[A-Za-z]+", text)), "")
            if file.endswith(".py") and not {"-m", "-c"} & set(rest[: rest.index(file)]):
                return "python", at + 1
    return None


def starts(path: Path, commands: tuple[Command, ...]) -> tuple[tuple[Start, ...], list[Fault]]:
    """The jobs that the commands start, with their options as they were meant."""
    found: list[Start] = []
    faults: list[Fault] = []
    for command in commands:
        launcher = family_of(command.words)
        if launcher:
            family, at = launcher
            rest = list(_parted(path, family, command.words[at:], faults))
            before = [(word, read) for word in command.words[:at] if (read := assignment(word))]
            own = {**command.own, **{read[0]: Word(word.spot, (Part(read[1]),)) for word, read in before}}
            start = _start(path, family, command.words[at - 1], rest, own, faults)
            found.append(replace(start, behind=command.end == "&"))
    return tuple(found), faults


def _parted(path: Path, family: str, words: tuple[Word, ...], faults: list[Fault]) -> Iterator[Word]:
    """The words, with `VALUE--option` and `--option8` taken apart where the launcher has such an option."""
    before = ""
    for word in words:
        short, joined = word.bare and len(word.text) < 300, None
        if short and family in OPTIONS and not known(family, word.text):
            joined = _JOINED.fullmatch(word.text)
        if joined and OPTIONS[family].get(known(family, joined["option"]) or "") == 1:
            yield from _unjoined(path, word, joined, faults)
            continue
        glued = _GLUED.fullmatch(word.text) if short else None
        if short and family == "mpi" and before.startswith("-") and known(family, before):
            glued = glued or _GLUED_SHORT.fullmatch(word.text)
        before = word.text
        if not (glued and family in OPTIONS and known(family, glued["option"])):
            yield word
            continue
        here = Spot(word.spot.line, word.spot.column + len(glued["value"]))
        faults.append(
            Fault(
                path, here, f"a blank is missing before {glued['option']}", word.text,
                f"{glued['value']} {glued['option']}{glued['rest'] or ''}", "put a blank between value and option",
            )
        )  # fmt: skip
        yield Word(word.spot, (Part(glued["value"]),))
        yield Word(here, (Part(glued["option"] + (glued["rest"] or "")),))


def _unjoined(path: Path, word: Word, joined: "re.Match[str]", faults: list[Fault]) -> Iterator[Word]:
    option, value = joined["option"], joined["value"]
    here = Spot(word.spot.line, word.spot.column + len(option))
    faults.append(
        Fault(path, here, f"a blank is missing before {value}", word.text, f"{option} {value}", "put a blank there")
    )
    yield Word(word.spot, (Part(option),))
    yield Word(here, (Part(value),))


def _start(
    path: Path, family: str, launcher: Word, words: list[Word], own: dict[str, Word], faults: list[Fault]
) -> Start:
    if family == "python":
        return Start(family, launcher, {}, (), tuple(words), own)
    given: dict[str, tuple[Word, ...]] = {}
    passed: list[Word] = []
    at = 0
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "--":
        option, sign, value = words[at].text.partition("=")
        name = known(family, option) or _slip(path, family, words[at], option, faults)
        count = OPTIONS[family].get(name or "", 0)
        values = (Word(words[at].spot, (Part(value),)),) if sign else tuple(words[at + 1 : at + 1 + count])
        if name == "x":
            passed += values
        elif name:
            given[name] = values
        at += 1 + (0 if sign else count)
        if name in ("m", "module"):
            break
    program = words[at + 1 :] if at < len(words) and words[at].text == "--" else words[at:]
    return Start(family, launcher, given, tuple(passed), tuple(program), own)


def _slip(path: Path, family: str, word: Word, option: str, faults: list[Fault]) -> str | None:
    meant = slip(family, option) if "$" not in option else None
    if meant:
        right = spelled(family, meant)
        faults.append(
            Fault(
                path,
                word.spot,
                f"the launcher has no option {option}",
                option,
                right,
                f"write {right}, if that is meant",
            )
        )
    return meant
