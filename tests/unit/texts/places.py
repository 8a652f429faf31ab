"""Paths, check ids, exit codes and names of schemas in texts, tried with the files, the checks and the code."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache

from preflight.checks.engine.registry import all_checks
from tests.unit.texts.passages import HOLE, ROOT, Mistake, Passage, mistake, syntax_tree

# Files of the repository: with a folder at its top, or a page by its name.
_REPOSITORY = re.compile(r"(?<![\w./<-])(?:docs|tests|playbooks|examples|benchmarks|preflight)/[\w./*-]*[\w/*]")
_PAGE = re.compile(r"(?<![\w./*-])[\w-]+\.md\b")
# Files on hosts that are preflight's own.
_HOST = re.compile(r"(?<![\w.$~}>-])/(?:etc|run|var|usr|lib)/[\w./\ue000*-]*preflight[\w./\ue000*-]*")
_CHECK = re.compile(r"(?<![\w-])[A-Z]{3}\d{3}(?![\w-])")
_SCHEMA = re.compile(r"(?<![\w./-])preflight\.[a-z-]+/\d+")
_EXIT = re.compile(r"\b(?:[Ee]nds? with|[Ee]xits?(?: code| with)?) (\d+)\b(?! seconds?| s\b)")
_FOLDERS_OF_PAGES = ("docs", "docs/guides", "benchmarks", ".")


# What looks like a check's id.
NO_CHECKS = {
    "SHA256": "an algorithm",
    **dict.fromkeys(("HST901", "PRT901"), "a check that CONTRIBUTING.md has its reader write"),
}
# Pages of others that ours cite.
PAGES_OF_OTHERS = {"PERFORMANCE.md": "of nccl-tests", "constraints.md": "of HCCL's user guide"}
# Files that readers make, named as they like; nothing of preflight makes or reads them by this name.
PATHS_OF_READERS = {
    "preflight/checks/host/kernel.py": "the first check of CONTRIBUTING.md",
    "preflight/checks/ports/monitoring.py": "the second check of CONTRIBUTING.md",
    "/etc/bash_completion.d/preflight": "where bash looks",
    "/usr/share/zsh/vendor-completions/_preflight": "where zsh looks",
    "/etc/flux/imp/conf.d/preflight.toml": "where Flux looks",
    "/etc/flux/system/conf.d/preflight.toml": "where Flux looks",
    "/usr/local/sbin/flux-preflight": "a copy of examples/schedulers/flux-preflight",
    "/usr/local/sbin/lsf-preflight": "a copy of examples/schedulers/lsf-preflight",
    "/var/lib/node_exporter/textfile/preflight.prom": "where node_exporter looks",
    "/etc/preflight/hosts.toml": "the controller's inventory, given with -i",
    "/etc/preflight/gate_key": "the controller's key, given with --key",
    "/var/cache/preflight-tests": "made by the tests in the lab",
}


def mistakes_in_paths(passage: Passage) -> Iterator[Mistake]:
    """Yield each path of the repository that is not there, and each path on hosts that no code of preflight names."""
    for path in _REPOSITORY.finditer(passage.words):
        name = path[0].rstrip(".")
        is_open = passage.words[path.end() : path.end() + 1] == HOLE or any(id_ in name for id_ in NO_CHECKS)
        if not is_open and name not in PATHS_OF_READERS and not any(ROOT.glob(name.rstrip("/"))):
            yield mistake(passage, name, "there is no such file")
    for page in _PAGE.finditer(passage.words):
        is_ours = any((ROOT / folder / page[0]).exists() for folder in _FOLDERS_OF_PAGES)
        if not is_ours and page[0] not in PAGES_OF_OTHERS:
            yield mistake(passage, page[0], "there is no such page")
    for path in _HOST.finditer(passage.words):
        name = path[0].rstrip("./")
        if not is_path_of_code(name) and name not in PATHS_OF_READERS:
            yield mistake(passage, name, "no code of preflight names this path")


def is_path_of_code(path: str) -> bool:
    """Return whether code names a path, a folder below it, or its folder and its name; RUN and * stand for any name."""
    folder, _, name = path.strip("/").rpartition("/")
    if any(known == path.strip("/") or known.startswith(path.strip("/") + "/") for known in _paths_of_code()):
        return True
    if "*" in name and any(fnmatchcase(known, path.strip("/")) for known in _paths_of_code()):
        return True
    return folder in _paths_of_code() and (bool(re.match(r"RUN\b|[*\ue000]", name)) or name in _constants())


@cache
def _paths_of_code() -> frozenset[str]:
    """Return the paths that stand in code by themselves, not in a sentence."""
    return frozenset(text.strip("/") for text in _constants() if "preflight" in text and "/" in text)


@cache
def _constants() -> frozenset[str]:
    """Return the strings of the package that are no sentences."""
    strings: set[str] = set()
    for path in (ROOT / "preflight").rglob("*.py"):
        for node in ast.walk(syntax_tree(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                strings.add(node.value)
    return frozenset(strings)


def mistakes_in_ids(passage: Passage) -> Iterator[Mistake]:
    """Yield each check id that no check has, and each schema that no document of preflight has."""
    for id_ in _CHECK.finditer(passage.words):
        if id_[0] not in all_checks() and id_[0] not in NO_CHECKS:
            yield mistake(passage, id_[0], f"there is no check {id_[0]}")
    for schema in _SCHEMA.finditer(passage.words):
        if schema[0] not in _constants():
            yield mistake(passage, schema[0], f"no document has the schema {schema[0]}")


def mistakes_in_exit_codes(passage: Passage) -> Iterator[Mistake]:
    """Yield each exit code that a command is said to have and docs/contracts.md does not list."""
    if passage.path.startswith(("preflight/cli/", "preflight/app/")) and passage.shown:
        for code in _EXIT.finditer(passage.words):
            if code[1] not in _exit_codes():
                yield mistake(passage, code[0], f"docs/contracts.md has no exit code {code[1]}")


@cache
def _exit_codes() -> frozenset[str]:
    page = (ROOT / "docs" / "contracts.md").read_text("utf-8")
    return frozenset(re.findall(r"^\| (\d+) \| ", page, re.MULTILINE))
