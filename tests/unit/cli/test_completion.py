"""What a shell completes, asked of a real bash."""

import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"
_shtab_preflight
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("completion") / "preflight"
    made = subprocess.run([sys.executable, "-m", "preflight", "completion", "bash"], capture_output=True, check=True)
    file.write_bytes(made.stdout)
    return file


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["configure-"], ["configure-device-ips", "configure-environment", "configure-firewall", "configure-ports"]),
        (["check", "--no-p"], ["--no-ping", "--no-probe"]),
        (["check", "--inventory", "ho"], ["hosts.toml"]),
        (["lab", "b"], ["break"]),
        (["support-"], ["support-bundle"]),
        (["diff", "--inventory", "ho"], ["hosts.toml"]),
        (["completion", ""], ["bash", "zsh", "tcsh", "fish"]),
    ],
)
def test_bash_completes_commands_options_and_files(
    script: Path, typed: list[str], offered: list[str], tmp_path: Path
) -> None:
    (tmp_path / "hosts.toml").touch()
    asked = ["bash", "--norc", "-c", ASK, "bash", str(script), "preflight", *typed]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert sorted(done.stdout.split()) == sorted(offered), done.stderr


@pytest.mark.parametrize("shell", ["zsh", "tcsh", "fish"])
def test_other_shells_have_scripts_of_their_own(shell: str) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "preflight", "completion", shell], capture_output=True, text=True, check=True
    )
    assert "configure-ports" in made.stdout
