"""Pages of docs, command by command, as their reader types them.

In a `console` block a line that begins with "$ " is a command for bash; one that ends in "\\" goes on in the next one.
What stands below it, up to the next command, is what it prints: all of it, but for what "…" stands for; where its lines
break does not count. It ends with 0, unless "# exit 1" stands behind it.
"""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ABORTED = "terminate called without an active exception"  # torch, now and then, when it exits with its work done
SECONDS = 240  # for a command; jobs take a tenth of it where nobody else works


@dataclass(frozen=True)
class Step:
    """A command of a page. `line`: of the page, counted from 1."""

    line: int
    command: str
    exit: int
    shown: str

    def came(self, said: str) -> bool:
        """Whether this is what the page shows."""
        parts = (r"\s+".join(map(re.escape, part.split())) for part in self.shown.split("…"))
        return re.fullmatch(rf"\s*{'.*?'.join(parts)}\s*", said, re.DOTALL) is not None


def steps(page: str) -> Iterator[Step]:
    """The commands of the page's console blocks, in its order."""
    for block in re.finditer(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        first = page.count("\n", 0, block.start()) + 2
        for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block[1], re.MULTILINE):
            code = re.search(r"# exit (\d+)$", found[1])
            line = first + block[1].count("\n", 0, found.start())
            yield Step(line, found[1], int(code[1]) if code else 0, found[2])


def in_bash(order: str) -> Sequence[str]:
    """The arguments that have this machine's bash do it."""
    return ["bash", "-c", order]


@dataclass(frozen=True)
class Desk:
    """Where a page's reader sits: a folder, and a shell whose exported variables stay from one command to the next, as
    in a terminal."""

    folder: Path
    variables: Mapping[str, str]  # of the first shell, quoted by nobody: "$PATH" is what it is there
    theirs: Mapping[str, str] = field(default_factory=dict)  # what the page calls it → what it is here
    reach: Callable[[str], Sequence[str]] = in_bash  # the arguments that run a shell command there

    def write(self, name: str, text: str) -> None:
        done = self._run(f"cat > {shlex.quote(name)}", self._translated(text))
        assert done.returncode == 0, done.stdout

    def run(self, step: Step) -> str:
        """Do as the page says; pytest.fail where something else comes of it. What it printed, in the page's words."""
        done = self._run(self._translated(step.command), "")
        if ABORTED in done.stdout:
            done = self._run(self._translated(step.command), "")
        said = done.stdout
        for page, here in self.theirs.items():
            said = said.replace(here, page)
        if done.returncode != step.exit or not step.came(said):
            pytest.fail(f"line {step.line}: $ {step.command}\nexit {done.returncode}, and not as shown:\n{said}")
        return said

    def _translated(self, text: str) -> str:
        for page, here in self.theirs.items():
            text = re.sub(rf"{re.escape(page)}(?!\d)", here, text)
        return text

    def _run(self, command: str, given: str) -> "subprocess.CompletedProcess[str]":
        # Unbuffered, so that both streams come in the order in which a terminal has them.
        state = f"{self.folder}/.local/state"  # a history of its own: other readers' runs are none of this page's
        variables = {"HOME": str(self.folder), "XDG_STATE_HOME": state, "PYTHONUNBUFFERED": "1", "COLUMNS": "80"}
        variables |= self.variables
        exports = " ".join(f'{name}="{value}"' for name, value in variables.items())
        order = (
            f"mkdir -p {self.folder} && cd {self.folder} && export {exports}\n"
            f"[ ! -e .exported ] || . ./.exported\ntrap 'export -p > {self.folder}/.exported' EXIT\n{command}"
        )
        return subprocess.run(
            [*self.reach(order)],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def assert_fits(name: str, page: str, most: int) -> None:
    """A page has at most `most` lines, none longer than 120 columns, and what a terminal shows in 80."""
    lines = page.splitlines()
    assert len(lines) <= most, name
    assert max(map(len, lines)) <= 120, name
    for step in steps(page):
        assert max(map(len, [*step.command.splitlines(), *step.shown.splitlines()])) <= 80, f"{name}:{step.line}"
