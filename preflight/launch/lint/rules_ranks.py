"""Rules for ranks that a script gives its programs by itself, as a loop of the shell does. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from preflight.launch.lint.expand import assignment
from preflight.launch.lint.rules_values import Rule
from preflight.launch.lint.starts import KEYWORDS, family_of
from preflight.launch.lint.types import Script, ScriptFault, ScriptSpot, ShellCommand, Word, digits, first_ten

_NUMBERS = (("RANK", "WORLD_SIZE"), ("RANK_ID", "RANK_SIZE"))
_OF_ONE_PROCESS = ("RANK", "RANK_ID", "DEVICE_ID", "LOCAL_RANK")
_MOST = 1 << 16  # ranks among which missing ones are searched
# Commands that may start rank 0 in a script that is not read, and those that may be in front of such a command.
_STARTERS = ("bash", "/bin/bash", "sh", "zsh", "source", ".", "ssh", "pdsh", "docker", "kubectl", "eval", "xargs")
_BEFORE = ("nohup", "env", "exec", "sudo", "setsid", "timeout", "numactl", "taskset", "stdbuf")

Ranks = Mapping[ScriptSpot, Mapping[int, Word]]  # command → its ranks, several in a loop


def ranks_beyond(script: Script) -> Iterator[ScriptFault]:
    """Yield ranks that are not below the world size; of a loop, the first one."""
    for name, size_name in _NUMBERS:
        reported: set[ScriptSpot] = set()
        for start in (*script.starts, None):
            rank = script.setting(name, start)
            number, count = script.number(name, start), script.number(size_name, start)
            if not rank or number is None or count is None or number < count or rank[1].spot in reported:
                continue
            reported.add(rank[1].spot)
            message = f"{name} {number} is too large for {count} ranks, which are numbered from 0"
            yield script.fault(rank[1], message, rank[0], f"less than {count}", f"correct {name} or {size_name}")


def ranks_twice(script: Script) -> Iterator[ScriptFault]:
    """Yield a number that one loop gives to several programs that run at the same time."""
    for name in _OF_ONE_PROCESS:
        by_command: dict[ScriptSpot, dict[str, list[Word]]] = {}
        for start in script.starts:
            setting = script.setting(name, start)
            if setting and start.family == "python" and start.behind and digits(setting[0]) is not None:
                by_command.setdefault(start.word.spot, {}).setdefault(setting[0], []).append(setting[1])
        for numbers in by_command.values():
            text, words = max(numbers.items(), key=lambda entry: len(entry[1]))
            if len(words) > 1:
                message = f"the loop gives {name} {text} to {len(words)} processes"
                yield script.fault(words[0], message, text, "a different one for each", f"set {name} from the loop")


def _ranks(script: Script) -> Iterator[tuple[int, int | None, Word]]:
    """Yield (rank, world size, place of the rank) of its programs with a known rank."""
    for start in script.starts:
        for name, size_name in _NUMBERS if start.family == "python" else ():
            rank, number = script.setting(name, start), script.number(name, start)
            if rank and number is not None:
                yield number, script.number(size_name, start), rank[1]
                break


def starts_all(script: Script) -> bool:
    """Return whether a script starts every rank of its job, so that the job has one host."""
    ranks = list(_ranks(script))
    return bool(ranks) and {size for _, size, _ in ranks} == {len({rank for rank, _, _ in ranks})}


def between_scripts(scripts: Sequence[Script]) -> Iterator[ScriptFault]:
    """Yield ranks that two hosts have, and those that none has if all ranks are known."""
    owners: dict[int, Script] = {}
    sizes: set[int | None] = set()
    complete = True
    last: tuple[Script, Word] | None = None
    for script in scripts:
        ranks = list(_ranks(script))
        complete = complete and len(ranks) == len(script.starts) > 0
        for rank, size, word in ranks:
            owner = owners.setdefault(rank, script)
            if owner.name != script.name:
                message = f"a process in {owner.name} also has rank {rank}"
                do = "add the number of processes on the hosts before this one"
                yield script.fault(word, message, str(rank), "a different one for each", do)
                return
            sizes.add(size)
            last = script, word
    if complete and last and len(sizes) == 1:
        yield from _missing_ranks(*last, owners, sizes.pop() or 0)


def _missing_ranks(script: Script, word: Word, owners: Mapping[int, Script], size: int) -> Iterator[ScriptFault]:
    missing = sorted(set(range(size)) - set(owners)) if size <= _MOST else []
    if missing:
        message = f"no script has rank {first_ten(missing)} of {size}, so all others would wait for it"
        do = "check the scripts or correct the world size"
        yield script.fault(word, message, f"{len(owners)} ranks", f"0 to {size - 1}", do)


def first_rank(script: Script) -> Iterator[ScriptFault]:
    """Yield a fault where a loop starts all ranks but the first, and no other command may start that one."""
    if script.remote or any(map(_may_start, script.commands)):
        return
    for name, size_name in _NUMBERS:
        ranks, sizes = _by_command(script, name, size_name)
        count = sizes.pop() if len(sizes) == 1 else None
        if count and 2 < count <= _MOST:
            yield from _without_first(script, name, ranks, count)


def _by_command(script: Script, name: str, size_name: str) -> tuple[Ranks, set[int | None]]:
    """Return the ranks of each command, and the world sizes; none where another program may be rank 0."""
    ranks: dict[ScriptSpot, dict[int, Word]] = {}
    sizes: set[int | None] = set()
    for start in script.starts:
        rank, number = script.setting(name, start), script.number(name, start)
        if start.family == "python" and rank and number is not None:
            ranks.setdefault(start.word.spot, {})[number] = rank[1]
            sizes.add(script.number(size_name, start))
        elif ranks or start.behind:  # a program that ended before the first rank is none
            return {}, set()
    return ranks, sizes


def _without_first(script: Script, name: str, ranks: Ranks, count: int) -> Iterator[ScriptFault]:
    for numbers in ranks.values():
        elsewhere = {number for command in ranks.values() if command is not numbers for number in command}
        if set(numbers) == set(range(1, count)) and 0 not in elsewhere:
            message = f"{name} 0 is never started, so all others would wait for it"
            yield script.fault(numbers[1], message, f"1 to {count - 1}", f"0 to {count - 1}", "start the loop at 0")


def _may_start(command: ShellCommand) -> bool:
    """Return whether a command runs another script, which is not read."""
    words = [word.text for word in command.words if word.text not in KEYWORDS and not assignment(word)]
    if family_of(command.words) or not words or re.fullmatch("-[a-z]*c", words[-1]):  # a script behind -c is read
        return False
    return any(map(_is_script, words if words[0] in _BEFORE else words[:1]))


def _is_script(text: str) -> bool:
    return text in _STARTERS or text.startswith(("./", "../")) or text.endswith(".sh")


RULES_OF_ONE: tuple[Rule, ...] = (ranks_beyond, ranks_twice)
