"""The checks that CONTRIBUTING.md has its reader write: added to a copy of the tree, and run there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = re.compile(r"^`([\w/.-]+)`:\n\n```(?:python|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
IDS = ("HST901", "PRT901")
LONGEST = 25  # lines of a check, with its docstring


def files_of_the_page() -> dict[str, str]:
    return dict(FILES.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("contributing")
    for name in ("preflight", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    for name, text in files_of_the_page().items():
        (tree / name).parent.mkdir(exist_ok=True)
        assert not (tree / name).exists(), name
        (tree / name).write_text(text, encoding="utf-8")
    return tree


def run(copy: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=copy, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_check_is_one_file_and_short() -> None:
    modules = {name: text for name, text in files_of_the_page().items() if name.endswith(".py")}
    assert len(modules) == len(IDS)
    for name, text in modules.items():
        assert len(text[text.index("@host_check") :].splitlines()) <= LONGEST, name


def test_the_tests_of_every_check_hold_for_them(copy: Path) -> None:
    shown = run(copy, "pytest", "-p", "no:cacheprovider", "tests/unit/checks/test_checks.py", "-k", " or ".join(IDS))
    assert int(re.findall(r"^(\d+) passed", shown, re.MULTILINE)[-1]) > len(IDS)


def test_they_are_listed_and_explained(copy: Path) -> None:
    listed = run(copy, "preflight", "list-checks")
    for id_, title in (("HST901", "Kernel series"), ("PRT901", "Monitoring port")):
        assert re.search(rf"{id_} .*{title}", listed)
        assert "Check manually:" in run(copy, "preflight", "explain", id_)
