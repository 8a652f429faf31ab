import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from preflight.app.files import write_whole
from preflight.cli import main as cli
from preflight.cli.parser import Parser
from preflight.model.errors import PreflightError, UsageError

HEAVY = ("paramiko", "fabric", "rich", "pydantic", "torch", "msgspec", "ClusterShell", "sqlite3")
ROOT = Path(__file__).parents[3]


def preflight(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "preflight", *arguments], capture_output=True, text=True, **more)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("arguments", [["--help"], ["list-checks"], ["explain", "PRT101"]])
def test_commands_that_touch_no_host_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom preflight.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"print('heavy:', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in cli.COMMANDS:
        with pytest.raises(SystemExit) as end:
            cli.main([command, "--help"])
        assert end.value.code == 0
        assert f"preflight {command}" in capsys.readouterr().out


def test_the_list_of_commands_fits_a_terminal_and_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    words = re.findall(r"[a-z-]+", " ".join(lines))
    assert {name.removeprefix("configure-") for name in cli.COMMANDS} - {*words, "configure"} == set()
    assert sum(line.startswith("  preflight ") for line in lines[:8]) == 3


def test_a_description_is_as_wide_as_the_terminal_and_its_examples_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    example = "  preflight look --at everything --on node01    # as it is"
    said = Parser(prog="p", description=f"{'prose ' * 20}\n\n{example}\n\nmore\nof it\n").format_help().splitlines()
    assert [line for line in said if len(line) > 40] == [example]
    assert "more of it" in said


@pytest.mark.parametrize("arguments", [[], ["chekc"], ["check", "--no-such-option"]])
def test_wrong_usage_ends_with_two(arguments: list[str]) -> None:
    done = preflight(*arguments)
    assert done.returncode == 2
    assert done.stderr
    assert not done.stdout


def test_wrong_options_are_one_line() -> None:
    said = preflight("check", "--no-such-option").stderr
    assert said == "preflight: unrecognized arguments: --no-such-option. See preflight check --help\n"


@pytest.mark.parametrize(
    ("arguments", "contacted"), [(["explain", "PRB999"], False), (["check", "-i", "/nope/hosts.toml"], True)]
)
def test_only_a_command_that_goes_to_hosts_says_that_nothing_was_contacted(
    arguments: list[str], contacted: bool
) -> None:
    done = preflight(*arguments)
    assert (done.returncode, "no host was contacted" in done.stderr) == (2, contacted)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chek"], "there is no command 'chek'. Did you mean check? See preflight --help"),
        (["configure-port", "-y"], "no command 'configure-port'. Did you mean configure-ports? See preflight --help"),
        (["qqq"], "there is no command 'qqq'. See preflight --help"),
        (["undo"], "there is no command 'undo'. Did you mean rollback? See preflight --help"),
        (["help", "chek"], "there is no command 'chek'. Did you mean check? See preflight --help"),
        ([], "COMMAND is missing, such as: preflight check --inventory hosts.toml. See preflight --help"),
        (["check", "--idel"], "arguments: --idel. Did you mean --idle? See preflight check --help"),
        (["facts", "--inventry=f"], "arguments: --inventry=f. Did you mean --inventory? See preflight facts --help"),
        (["gate", "install", "--inventry=f"], "Did you mean --inventory? See preflight gate install --help"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.endswith(f"{says}\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["check"], ["gate", "install"], ["help"]])
def test_help_prints_what_the_option_prints(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for arguments in (["help", *words], [*words, "--help"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert told[0].startswith(f"usage: {' '.join(['preflight', *words])}")


def test_what_other_tools_call_a_command_leads_to_one_that_is_there() -> None:
    assert {meant.split()[0] for meant in cli.MEANT.values()} <= {*cli.COMMANDS, "--version"}
    assert not set(cli.MEANT) & set(cli.COMMANDS)


@pytest.mark.parametrize("command", ["check", "probe"])
def test_a_report_that_cannot_be_saved_is_said_first(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "nope" / "report.json", tmp_path / "file" / "report.json", Path("/dev/null")):
        assert cli.main([command, "-i", "/nope/hosts.toml", "--save", str(place)]) == 2
        assert f"preflight: --save {place}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"),
    [("facts", "--out"), ("capture", "--out"), ("plan", "--out"), ("learn", "-o"), ("ranktable", "-o")],
)
def test_a_file_that_cannot_be_written_is_said_before_anybody_is_contacted(
    command: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "nope" / "it", tmp_path / "file" / "it", Path("/dev/null")):
        assert cli.main([command, "-i", "/nope/hosts.toml", option, str(place)]) == 2
        said = capsys.readouterr()
        assert str(place) in said.err
        assert "/nope/hosts.toml" not in said.err
        assert "no host was contacted" in said.err
        assert not said.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["rollback", "nope"], "this machine has no run nope"), (["apply", "nope.json"], "nope.json: no such file")],
)
def test_what_is_not_there_is_said_before_it_is_asked_for_a_terminal(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (UsageError("there is no check 'X'"), 2, "there is no check 'X'"),
        (PreflightError("it broke"), 1, "it broke"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("oops"), 4, "a bug in preflight"),
    ],
)
def test_exceptions_become_sentences_and_exit_codes(
    error: BaseException, code: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import preflight.cli.commands.list_checks

    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(preflight.cli.commands.list_checks, "run", fail)
    assert cli.main(["list-checks"]) == code
    assert says in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([sys.executable, "-m", "preflight", "list-checks"], stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.returncode == 0
    assert done.stderr == b""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stdout_or_stderr_is_no_bug(closed: str) -> None:
    shell = f"exec {sys.executable} -m preflight list-checks {closed}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("encoding", "dots"), [("latin-1", r"\u2026"), ("ascii", r"\u2026"), ("utf-8", "…")])
def test_a_stdout_that_has_not_every_character_gets_the_others_spelled_out(encoding: str, dots: str) -> None:
    done = preflight("capture", "--help", encoding=encoding, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stderr) == (0, "")
    assert f"preflight-capture-{dots}.json" in done.stdout


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert preflight("--version").stdout == f"preflight {project['version']}\n"


def verdict_without_a_reader(*arguments: str | Path) -> int:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([sys.executable, "-m", "preflight", *arguments], stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.stderr == b""
    return done.returncode


def test_a_verdict_stands_when_its_reader_goes_away(tmp_path: Path) -> None:
    inventory, facts = tmp_path / "hosts.toml", tmp_path / "facts.json"
    inventory.write_text('[cluster]\nname = "c"\nproduct = "cpu"\n[[hosts]]\nname = "a"\n')
    unreachable = '{"unreachable": {"trouble": "refused", "summary": "a: refused", "remedy": "start sshd"}}'
    facts.write_text(f'{{"schema": "preflight.facts/1", "hosts": {{"a": {unreachable}}}}}')
    assert verdict_without_a_reader("check", "-i", inventory, "--from", facts) == 1
    other = tmp_path / "other.json"
    other.write_text('{"schema": "preflight.facts/1", "hosts": {"a": {}}}')
    assert verdict_without_a_reader("diff", facts, other) == 1
    odd = tmp_path / "odd.txt"
    odd.write_text("what no tool prints\n")
    assert verdict_without_a_reader("parse", "nvidia-smi.query", odd) == 3


@pytest.mark.parametrize("pool", ["0", "-1", "4097", "x"])
def test_a_pool_that_is_none_is_refused(pool: str) -> None:
    done = preflight("check", "--pool", pool)
    assert done.returncode == 2
    assert "number from 1 to 4096" in done.stderr


def test_a_full_disk_behind_stdout_is_said_without_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "preflight", "list-checks"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "preflight: cannot write the output: No space left on device\n"


@pytest.mark.parametrize(("product", "backend"), [("atlas-a2", "nccl"), ("nvidia", "hccl"), ("cpu", "nccl")])
def test_a_backend_without_its_devices_is_refused(
    product: str, backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "hosts.toml"
    inventory.write_text(
        f'[cluster]\nname = "c"\nproduct = "{product}"\n[[hosts]]\nname = "n1"\naddress = "127.0.0.1"\n'
    )
    assert cli.main(["probe", "--inventory", str(inventory), "--idle", "--backend", backend]) == 2
    said = capsys.readouterr().err
    assert f"--backend {backend} does not run on {product}" in said
    assert "no host was contacted" in said


def test_an_empty_limit_is_a_variable_that_was_not_set_and_not_all_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "hosts.toml"
    inventory.write_text('[cluster]\nname = "c"\nproduct = "cpu"\n[[hosts]]\nname = "n1"\n', encoding="utf-8")
    assert cli.main(["check", "--inventory", str(inventory), "--limit", ""]) == 2
    assert "--limit '' contains no host" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_what_is_no_ordinary_file_is_never_replaced(tmp_path: Path, kind: str) -> None:
    """As root's /dev/null was by --out."""
    target = tmp_path / "target"
    if kind == "folder":
        target.mkdir()
    else:
        os.mkfifo(tmp_path / "pipe" if kind != "pipe" else target)
        if kind != "pipe":
            target.symlink_to(tmp_path / "pipe")
    before = sorted((it.name, it.lstat().st_mode, it.lstat().st_ino) for it in tmp_path.iterdir())
    with pytest.raises(PreflightError, match=r"cannot write the facts to .*target: not a regular file"):
        write_whole(target, "text", "the facts")
    assert sorted((it.name, it.lstat().st_mode, it.lstat().st_ino) for it in tmp_path.iterdir()) == before
