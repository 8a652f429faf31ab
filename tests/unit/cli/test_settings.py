"""The variable PREFLIGHT_INVENTORY and the file config.toml: which one counts, and how mistakes are reported."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.app.options import DEFAULT_INVENTORY, DefaultPath
from preflight.cli.main import main, parser
from preflight.cli.report_options import ReportOutput, outputs
from preflight.cli.settings import fill_in


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the configuration file, in an empty folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PREFLIGHT_INVENTORY", raising=False)
    (tmp_path / "preflight").mkdir()
    return tmp_path / "preflight" / "config.toml"


def parsed(*words: str) -> argparse.Namespace:
    args = parser(words[0]).parse_args(list(words))
    fill_in(args)
    return args


def test_without_settings_the_defaults_are_those_of_the_help() -> None:
    args = parsed("check")
    assert args.inventory is DEFAULT_INVENTORY
    assert (args.pool, outputs(args)) == (4096, [ReportOutput("console")])


def test_options_win_over_the_variable_and_the_variable_over_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('inventory = "from-file.toml"\npool = 4\noutput = "short"\n')
    args = parsed("check")
    assert args.inventory == config.parent / "from-file.toml"
    assert (args.pool, outputs(args)) == (4, [ReportOutput("short")])
    monkeypatch.setenv("PREFLIGHT_INVENTORY", "from-variable.toml")
    assert parsed("check").inventory == Path("from-variable.toml")
    args = parsed("check", "-i", "typed.toml", "--pool", "7", "-o", "json")
    assert args.inventory == Path("typed.toml")
    assert (args.pool, outputs(args)) == (7, [ReportOutput("json")])
    assert outputs(parsed("check", "-o", "json=x.json"))[0] == ReportOutput("short")


def test_an_empty_variable_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFLIGHT_INVENTORY", "")
    assert parsed("probe").inventory is DEFAULT_INVENTORY


def test_an_inventory_of_the_settings_is_not_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture has its own inventory, which only an option replaces."""
    monkeypatch.setenv("PREFLIGHT_INVENTORY", "x.toml")
    assert isinstance(parsed("check").inventory, DefaultPath)
    assert not isinstance(parsed("check", "-i", "x.toml").inventory, DefaultPath)


def test_hosts_win_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFLIGHT_INVENTORY", "x.toml")
    assert parsed("check", "--hosts", "a").hosts == "a"


def test_commands_with_another_default_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFLIGHT_INVENTORY", "x.toml")
    assert parsed("apply", "plan.json").inventory is None
    args = parsed("learn", "-o", "y.toml")
    assert (args.inventory, args.default_inventory) == (None, Path("x.toml"))


def test_the_home_directory_of_the_file_is_expanded(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    config.write_text('inventory = "~/hosts.toml"\n')
    assert parsed("check").inventory == Path("/home/x/hosts.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\npools = 3\n", ":2: pools: unknown key. The keys are inventory, pool, output."),
        (b'inventory = "x"\npool = 4097\n', ":2: pool: should be a number from 1 to 4096"),
        (b"pool = true\n", ":1: pool: should be a number from 1 to 4096"),
        (b"inventory = 3\n", ":1: inventory: should be the path of an inventory"),
        (b'inventory = "~no-such-user/x"\n', ":1: inventory: should be the path of an inventory"),
        (b'output = "xml"\n', ":1: output: should be one of console, short, json,"),
        (b"\n\npool = \n", ":3:8: not valid TOML: Invalid value"),
        (b"# \xff\n", ":1: not UTF-8 text. Save the file as UTF-8."),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_line(
    text: bytes, says: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_bytes(text)
    assert main(["check"]) == 2
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith(f"preflight: {config}{says}")
    assert others == ["preflight: no host was contacted."]


def test_a_folder_in_its_place_is_an_error(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.mkdir()
    assert main(["check"]) == 2
    assert f"{config}: Is a directory" in capsys.readouterr().err


def test_commands_without_hosts_do_not_read_the_file(config: Path) -> None:
    config.write_text("pool = x")
    assert main(["explain", "HST101"]) == 0


def test_the_parser_of_toml_is_loaded_only_for_a_file(config: Path) -> None:
    code = (
        "import argparse, sys\nfrom preflight.cli.settings import fill_in\n"
        "fill_in(argparse.Namespace(inventory=None))\nprint('tomllib' in sys.modules)"
    )
    done = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout]
    config.write_text("pool = 3\n")
    done.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert done == ["False\n", "True\n"]
