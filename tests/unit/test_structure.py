"""What import-linter cannot see: the programs in `remote/` are text, not a package."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import structure

PACKAGE = Path(__file__).parents[2] / "preflight"
REMOTE = sorted((PACKAGE / "remote").rglob("*.py"))
FOREIGN = {"worker": {"torch", "torch_npu"}}
SENT_TOGETHER = {
    "agent": {"agent", "collect", "worker"},
    "fetch_logs": {"collect", "fetch_logs"},
    "rehearse": {"agent", "collect", "rehearse"},
    "step": {"agent", "step"},
    "publish": {"gate", "publish"},
}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_nobody_imports_a_host_program() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not any(name.startswith("preflight.remote") for name in imported(path)), path


def test_host_programs_need_only_the_standard_library_of_python_3_6() -> None:
    assert len(REMOTE) >= 4
    for path in REMOTE:
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
        own = SENT_TOGETHER.get(path.parent.name, {path.parent.name})
        foreign = {name.partition(".")[0] for name in imported(path)} - set(sys.stdlib_module_names) - own
        assert foreign <= FOREIGN.get(path.parent.name, set()), path


def vermin(*files: Path) -> "subprocess.CompletedProcess[str]":
    """Look for what a version of Python does not have: functions and arguments too, where a parser sees only syntax."""
    command = [sys.executable, "-c", "from vermin import main; main()", "-t=3.6-", "--violations", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_host_programs_call_nothing_that_python_3_6_does_not_have(tmp_path: Path) -> None:
    newer = tmp_path / "newer.py"
    newer.write_text("import subprocess\nsubprocess.run(['true'], capture_output=True)\n", encoding="utf-8")
    assert vermin(newer).returncode != 0
    done = vermin(*REMOTE)
    assert done.returncode == 0, done.stdout


def test_every_figure_of_the_structure_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "preflight" / "bad.py"
    module.parent.mkdir()
    branches = "".join(f"    if a == {number}:\n        return {number}\n" for number in range(10))
    module.write_text(
        f"class Same: ...\n\n\ndef bad(a, b, c, d, e, f):  # noqa\n    import os\n    found = os\n{branches}\n"
        "class Same: ...\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(structure, "PACKAGE", module.parent)
    over = {figure for figure, value, _ in structure.measure([module]) if value > figure.threshold}
    assert over == set(structure.FIGURES) - {structure.LARGE_FOLDERS}
    modules = [module.with_name(f"module{number}.py") for number in range(26)]
    for path in modules:
        path.touch()
    assert (structure.LARGE_FOLDERS, 26, "preflight") in set(structure.measure(modules))
