"""`-v` and `--log-file`: what is logged, where, and what is not."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.cli.run_log import start_log
from preflight.transport import FanOutLimits, fan_out
from preflight.transport.attempt import waiting_for
from tests.unit.cli.test_json_lines import INVENTORY
from tests.unit.healthy import healthy_cluster


@pytest.fixture(autouse=True)
def no_log_afterwards() -> Iterator[None]:
    yield
    start_log(verbose=False, file=None)


def check(place: Path, *words: str) -> None:
    inventory = place / "hosts.toml"
    inventory.write_text(INVENTORY)
    options = ["--inventory", str(inventory), "--basic", "--only", "HST101", "-o", "short"]
    assert main(["check", *options, *words]) in (0, 1, 3)


def test_nothing_is_logged_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(tmp_path)
    assert capsys.readouterr().err == ""


def test_verbose_goes_to_stderr_and_the_file_has_timestamps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.log"
    check(tmp_path, "-v", "--log-file", str(log))
    out, err = capsys.readouterr()
    assert "connecting" not in out
    steps = ("alpha: connecting over local to alpha", "alpha: program ended with exit code 0", "facts: 1 of 1 done")
    for text in (err, log.read_text("utf-8")):
        assert [step for step in steps if step not in text] == []
    assert all(re.match(r" *\d+\.\d\d s  ", line) for line in err.splitlines())
    lines = log.read_text("utf-8").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  ", line) for line in lines)
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_file_alone_leaves_stderr_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(tmp_path, "--log-file", str(tmp_path / "run.log"))
    assert capsys.readouterr().err == ""
    assert "facts took" in (tmp_path / "run.log").read_text("utf-8")


def test_secrets_and_control_characters_are_not_logged(tmp_path: Path) -> None:
    start_log(verbose=False, file=tmp_path / "run.log")
    logging.getLogger("preflight.transport").info("%s: failed: password=hunter22secret \x1b[2J\nnext", "a")
    text = (tmp_path / "run.log").read_text("utf-8")
    assert "hunter22secret" not in text
    assert "\x1b" not in text
    assert text.count("\n") == 1


def test_a_step_is_logged_with_its_host(tmp_path: Path) -> None:
    start_log(verbose=False, file=tmp_path / "run.log")
    waiting_for("a step outside of all hosts")
    fan_out(healthy_cluster().hosts, lambda _: waiting_for("the ssh banner"), FanOutLimits(2, 10.0))
    text = (tmp_path / "run.log").read_text("utf-8")
    assert text.count("waiting for the ssh banner") == len(healthy_cluster().hosts)
    assert "outside" not in text


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-i", "x.toml", "--log-file", str(tmp_path / "none" / "run.log")]) == 2
    assert "--log-file" in capsys.readouterr().err
