"""Ranks that a script gives its programs by itself, as a loop of the shell does. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from preflight.launch.lint.expand import assignment
from preflight.launch.lint.rules_values import Rule
from preflight.launch.lint.starts import KEYWORDS, family_of
from preflight.launch.lint.types import Command, Fault, Script, Spot, Word, digits

_NUMBERS = (("RANK", "WORLD_SIZE"), ("RANK_ID", "RANK_SIZE"))
_OF_ONE_PROCESS = ("RANK", "RANK_ID", "DEVICE_ID", "LOCAL_RANK")
_MOST = 1 << 16  # ranks of which missing ones are looked for
# Commands that may start rank 0 in a way that is not read here, and those that stand before such a one.
_STARTERS = ("bash", "/bin/bash", "sh", "zsh", "source", ".", "ssh", "pdsh", "docker", "kubectl", "eval", "xargs")
_BEFORE = ("nohup", "env", "exec", "sudo", "setsid", "timeout", "numactl", "taskset", "stdbuf")


def ranks_beyond(script: Script) -> Iterator[Fault]:
    """Of a loop, the first that it gives."""
    for name, of in _NUMBERS:
        told: set[Spot] = set()
        for start in (*script.starts, None):
            rank, size = script.setting(name, start), script.setting(of, start)
            number, count = digits(rank[0]) if rank else None, digits(size[0]) if size else None
            if rank and number is not None and count is not None and number >= count and rank[1].spot not in told:
                told.add(rank[1].spot)
                yield Fault(
                    script.path, rank[1].spot, f"{name} {number} does not exist among {count}: they count from 0",
                    rank[0], f"less than {count}", f"correct {name} or {of}",
                )  # fmt: skip


def ranks_twice(script: Script) -> Iterator[Fault]:
    """Programs that one loop starts beside each other with the same number; of a loop, the first."""
    for name in _OF_ONE_PROCESS:
        told: dict[Spot, dict[str, list[Word]]] = {}
        for start in script.starts:
            number = script.setting(name, start)
            if number and start.family == "python" and start.behind and digits(number[0]) is not None:
                told.setdefault(start.word.spot, {}).setdefault(number[0], []).append(number[1])
        for numbers in told.values():
            text, words = max(numbers.items(), key=lambda it: len(it[1]))
            if len(words) > 1:
                yield Fault(
                    script.path, words[0].spot, f"the loop gives {name} {text} to {len(words)} processes", text,
                    "another one for each", f"count {name} with the loop",
                )  # fmt: skip


def _ranks(script: Script) -> Iterator[tuple[int, int | None, Word]]:
    """(rank, world size, where the rank stands) of its programs, where the rank is known."""
    for start in script.starts:
        for name, of in _NUMBERS if start.family == "python" else ():
            rank, size = script.setting(name, start), script.setting(of, start)
            if rank and (number := digits(rank[0])) is not None:
                yield number, digits(size[0]) if size else None, rank[1]
                break


def starts_all(script: Script) -> bool:
    """Whether it starts every rank of its job, so that this is a job of one host."""
    ranks = list(_ranks(script))
    return bool(ranks) and {size for _, size, _ in ranks} == {len({rank for rank, _, _ in ranks})}


def between_scripts(scripts: Sequence[Script]) -> Iterator[Fault]:
    """Ranks that two hosts have, and those that none has, where all of them are known."""
    told: dict[int, Script] = {}
    sizes: set[int | None] = set()
    whole = True
    last: tuple[Script, Word] | None = None
    for script in scripts:
        ranks = list(_ranks(script))
        whole = whole and len(ranks) == len(script.starts) > 0
        for rank, size, word in ranks:
            other = told.setdefault(rank, script)
            if other.name != script.name:
                yield Fault(
                    script.path, word.spot, f"a process of {other.name} has rank {rank}, too", str(rank),
                    "another one for each", "add the number of processes on the hosts before",
                )  # fmt: skip
                return
            sizes.add(size)
            last = script, word
    size = sizes.pop() if len(sizes) == 1 else None
    missing = sorted(set(range(size)) - set(told)) if whole and size and size <= _MOST else []
    if missing and last:
        few = ", ".join(map(str, missing[:10])) + ("…" if len(missing) > 10 else "")
        yield Fault(
            last[0].path, last[1].spot, f"no script has rank {few} of {size}: all would wait for it",
            f"{len(told)} ranks", f"0 to {(size or 1) - 1}", "check the scripts, or correct the world size",
        )  # fmt: skip


def first_rank(script: Script) -> Iterator[Fault]:
    """Yield a fault where a loop starts all ranks but the first, and nothing else in the script may start that one."""
    if script.remote or any(map(_may_start, script.commands)):
        return
    for name, of in _NUMBERS:
        ranks: dict[Spot, dict[int, Word]] = {}  # by the command that starts them
        sizes: set[int | None] = set()
        for start in script.starts:
            rank, size = script.setting(name, start), script.setting(of, start)
            number = digits(rank[0]) if rank else None
            if start.family == "python" and rank and number is not None:
                ranks.setdefault(start.word.spot, {})[number] = rank[1]
                sizes.add(digits(size[0]) if size else None)
            elif ranks or start.behind:  # which may be rank 0; what ran to its end before is none
                break
        else:
            yield from _but_the_first(script, name, ranks, sizes)


def _but_the_first(
    script: Script, name: str, ranks: Mapping[Spot, Mapping[int, Word]], sizes: Set[int | None]
) -> Iterator[Fault]:
    """`ranks`: those of each command that starts some; several in a loop."""
    count = next(iter(sizes)) if len(sizes) == 1 else None
    if count is None or not 2 < count <= _MOST:
        return
    for numbers in ranks.values():
        others = {number for rest in ranks.values() if rest is not numbers for number in rest}
        if set(numbers) == set(range(1, count)) and 0 not in others:
            yield Fault(
                script.path, numbers[1].spot, f"{name} 0 is never started: all others would wait for it",
                f"1 to {count - 1}", f"0 to {count - 1}", "let the loop begin with 0",
            )  # fmt: skip


def _may_start(command: Command) -> bool:
    """Return whether a command runs another script, which is not read."""
    words = [word.text for word in command.words if word.text not in KEYWORDS and not assignment(word)]
    if family_of(command.words) or not words or re.fullmatch("-[a-z]*c", words[-1]):  # behind -c it is read
        return False
    told = words if words[0] in _BEFORE else words[:1]
    return any(it in _STARTERS or it.startswith(("./", "../")) or it.endswith(".sh") for it in told)


RULES_OF_ONE: tuple[Rule, ...] = (ranks_beyond, ranks_twice)
