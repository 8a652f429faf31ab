"""Options that texts name by themselves: in `--idle`, in "add -y, or --dry-run to only look"."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from preflight.cli.main import module_of
from tests.unit.texts.commands import options_of, the_parser, without_commands
from tests.unit.texts.passages import HOLE, ROOT, Kind, Mistake, Passage, mistake, syntax_tree

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]*")
# A command without the word preflight: "check --publish", "lab up --leaves".
_SHORT_CALL = re.compile(r"(?<![\w./-])([a-z][a-z-]+(?: [a-z]+)*?) (--[a-z][a-z0-9_-]*)")
_CLAUSE_END = re.compile(r"[;:()|]|\.(?=\s|$)|,(?=\s)(?! or)")
# Programs before whose options their name stands.
_NAMES = """
    ansible-inventory bash dbus-daemon deepspeed docker fab findmnt firewall-cmd firewalld hccn_tool
    journalctl kubectl mpirun msrun npu-smi nvidia-smi pip preflight-gate pytest python python3 rsync salloc
    sbatch scontrol srun ss sysctl systemctl torchrun
"""
PROGRAMS = frozenset(_NAMES.split())
# Options of other programs that stand by themselves, where the sentence leaves no doubt of whose they are.
FOREIGN = {
    option: program
    for program, options in {
        "ansible-inventory": "--export",
        "docker": "--cap-add --group-add --ipc --shm-size",
        "iptables": "--comment --ctstate --dport --dports --line-numbers --reject-with",
        "kubectl": "--from-file",
        "mpirun": "--map-by --mca --prefix",
        "nvidia-smi": "--query-gpu",
        "perseusrun": "--ssh_port",
        "preflight-gate": "--ssh",
        "srun": "--distribution --kill-on-bad-exit --mem --ntasks --ntasks-per-node",
        "deepspeed": "--num_nodes",
        "torchrun": "--local-addr --master-addr --master_addr --nnodes --node-rank --node_rank --nproc-per-node "
        "--rdzv-backend --rdzv-conf --rdzv-endpoint --standalone",
        "the training program of an example": "--batch-size --epochs --spawn",
        "a secret in a log": "--password",
    }.items()
    for option in options.split()
}


def mistakes_in_options(passage: Passage) -> Iterator[Mistake]:
    """Yield each option of a passage that the commands it may belong to do not have."""
    if not _has_options(passage):
        return
    words = without_commands(passage)
    for call in _SHORT_CALL.finditer(words):
        command = _command_at_end(call[1])
        if command and call[2] not in options_of(command):
            yield mistake(passage, call[0], f"preflight {' '.join(command)} has no option {call[2]}")
    words = _SHORT_CALL.sub(lambda call: HOLE if _command_at_end(call[1]) else call[0], words)
    for option in _OPTION.finditer(words):
        clause = _CLAUSE_END.split(words[: option.start()])[-1]
        if not _is_foreign(clause, option[0]):
            yield from _tried(passage, option[0])


def _has_options(passage: Passage) -> bool:
    is_sentence = passage.kind is not Kind.LINE and (passage.kind is Kind.SPAN or len(passage.words.split()) > 1)
    is_style = "var(--" in passage.words or passage.words.startswith(":root")
    return is_sentence and "--" in passage.words and not is_style


def _tried(passage: Passage, option: str) -> Iterator[Mistake]:
    commands = commands_of(passage.path, passage.function)
    for command in commands:
        if option not in options_of(command):
            yield mistake(passage, option, f"preflight {' '.join(command)} has no option {option}")
    if not commands and option not in options_of([]):
        yield mistake(passage, option, f"no command has an option {option}")


def _command_at_end(words: str) -> list[str]:
    """Return the command with which some words end: ["gate", "install"] of "run gate install"; else nothing."""
    parts = words.split(" ")
    for start in range(len(parts)):
        if parts[start - 1 : start] and parts[start - 1] in PROGRAMS:
            continue
        if " ".join(parts[start:]) in all_commands():
            return parts[start:]
    return []


@cache
def all_commands() -> frozenset[str]:
    """Return every command by its words: "check", "gate install"."""
    return frozenset(_below(the_parser(), ()))


def _below(command: object, path: tuple[str, ...]) -> Iterator[str]:
    for action in getattr(command, "_actions", ()):
        for name, child in action.choices.items() if isinstance(action.choices, dict) else ():
            yield " ".join((*path, name))
            yield from _below(child, (*path, name))


def _is_foreign(clause: str, option: str) -> bool:
    """Return whether an option stands behind another program's name."""
    return option in FOREIGN or any(_is_program(word.strip("\"'`")) for word in clause.split())


def _is_program(word: str) -> bool:
    return word in PROGRAMS or word.endswith((".sh", ".py"))


def commands_of(path: str, function: str) -> list[list[str]]:
    """Return the commands whose users read a text of a module in preflight/cli or preflight/app: those that the module
    belongs to, or whose modules import the function. Nothing for other files."""
    if not path.startswith(("preflight/cli/", "preflight/app/")):
        return []
    if own := _commands_of_modules().get(path):
        return own
    return [command for user in _users(path, function) for command in _commands_of_modules().get(user, ())]


@cache
def _commands_of_modules() -> dict[str, list[list[str]]]:
    """Return the commands of each module with the options of one, and of the module that carries it out."""
    commands: dict[str, list[list[str]]] = {}
    for name in sorted(all_commands()):
        words = name.split(" ")
        path = _path(".".join([module_of(words[0]), *words[1:][-1:]]))  # `gate install slurm` is in gate/slurm.py
        if path.exists():
            functions = (node for node in ast.walk(_tree(path)) if isinstance(node, ast.FunctionDef))
            runs = (node for function in functions if function.name == "run" for node in ast.walk(function))
            for part in (path, *filter(_is_implementation, map(_imported, runs))):
                commands.setdefault(str(part.relative_to(ROOT)), []).append(words)
    return commands


def _is_implementation(path: Path) -> bool:
    """Return whether the module carries out a command: one of app, or in a folder of cli."""
    return path.parent == ROOT / "preflight" / "app" or path.parent.parent == ROOT / "preflight" / "cli"


def _path(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _tree(path: Path) -> ast.Module:
    return syntax_tree(path.read_text("utf-8"))


def _imported(node: ast.AST) -> Path:
    """Return the module of preflight that an import names, by itself or with one of its functions."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("preflight."):
        return Path()
    module = _path(f"{node.module}.{node.names[0].name}")
    return module if module.exists() else _path(str(node.module))


@cache
def _users(path: str, function: str) -> tuple[str, ...]:
    """Return the modules of preflight/cli that import a function of a module beside them."""
    users = []
    for user in sorted((ROOT / "preflight" / "cli").rglob("*.py")):
        for node in ast.walk(_tree(user)):
            if isinstance(node, ast.ImportFrom) and _imported(node) == ROOT / path:
                users += [str(user.relative_to(ROOT)) for alias in node.names if alias.name == function]
    return tuple(users)
