"""Options of the command that exec starts: none may contradict the nodes and ranks that it gets. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from preflight.launch.lint.starts import starts
from preflight.launch.lint.types import ScriptSpot, ShellCommand, Word, WordPart
from preflight.model.errors import UsageError

_MASTER = "rank 0 is chosen after the bad nodes are excluded, and exec passes it to the command"
_NOT_TO_BE_SAID = {
    "node-rank": "exec gives every node its own",
    "master-addr": _MASTER,
    "rdzv-endpoint": _MASTER,
    "standalone": "it would start a separate job on every node",
}
_ONCE = ("mpi", "perseus", "srun", "deepspeed")


@dataclass(frozen=True)
class Told:
    """Settings that the job's processes get.

    `nodes`: the number asked for, None for all good ones. `processes`: on each node. `table`: they get a rank table.
    `per_device`: the command is started once for each device.
    """

    nodes: int | None
    processes: int
    port: int
    table: bool = False
    per_device: bool = False


def nodes_of(program: Sequence[str], told: Told) -> int | None:
    """Return how many nodes are wanted: by `told`, else by the command itself.

    Raises UsageError for an option of the command that contradicts what it gets.
    """
    family, options = _options(program)
    if family in _ONCE:
        raise UsageError(
            f"{program[0]} is started once for all nodes, but exec starts its command on each node. Give exec the "
            f"command that {program[0]} would start"
        )
    if family != "torch":
        return told.nodes
    if told.per_device:
        raise UsageError("--per-device: torchrun itself starts one process for each device. Remove one of the two")
    for name, why in _NOT_TO_BE_SAID.items():
        if name in options:
            raise UsageError(f"remove --{name} from the command: {why}")
    _same(options, "master-port", told.port, f"preflight exec --master-port {options.get('master-port')}")
    _same(options, "nproc-per-node", told.processes, "preflight exec --devices 0-3 or the like")
    if told.table and options.get("rdzv-backend", "static") != "static":
        raise UsageError(
            f"--rdzv-backend {options['rdzv-backend']} assigns ranks differently from the rank table. Remove it, or "
            "use preflight exec --no-rank-table"
        )
    return _wanted(options.get("nnodes"), told.nodes)


def _options(program: Sequence[str]) -> tuple[str, Mapping[str, str]]:
    """Return the launcher's family, and its options with their values; empty for any other program."""
    words = tuple(Word(ScriptSpot(1, number), (WordPart(word),)) for number, word in enumerate(program, 1))
    start_calls, _ = starts(Path("the command"), (ShellCommand(words),))
    if not start_calls or start_calls[0].word not in words[:3]:  # else it is an argument of another program
        return "", {}
    return start_calls[0].family, {name: value[0].text if value else "" for name, value in start_calls[0].given.items()}


def _same(given: Mapping[str, str], name: str, ours: int, fix: str) -> None:
    text = given.get(name, "")
    if text.isdecimal() and int(text) != ours:
        raise UsageError(f"the command has --{name} {text}, but exec passes {ours}. Remove it, or use {fix}")


def _wanted(said: str | None, asked: int | None) -> int | None:
    if said is None:
        return asked
    if not said.isdecimal():
        raise UsageError(
            f"remove --nnodes {said} from the command. Set the number of nodes with --nodes of preflight exec"
        )
    if asked is not None and int(said) != asked:
        raise UsageError(
            f"the command has --nnodes {said}, but preflight exec has --nodes {asked}. Remove --nnodes, since exec "
            "passes it to torchrun"
        )
    return int(said)
