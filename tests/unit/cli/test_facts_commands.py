"""`preflight parse` and `preflight facts` as they are typed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.app.files import write_whole
from preflight.cli.outline import outline
from preflight.facts.parsers.registry import PARSERS
from preflight.model.errors import PreflightError


def preflight(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "preflight", *map(str, arguments)], input=stdin, capture_output=True, timeout=60
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_parser_reads_stdin_and_prints_json() -> None:
    code, out, _ = preflight("parse", "hccn_tool.link", "-", "-o", "json", stdin=b"link status: UP\n")
    assert (code, json.loads(out)) == (0, [{"value": "UP", "error": ""}])


def test_what_a_parser_does_not_understand_is_an_error_with_exit_3_and_no_escape_on_the_screen() -> None:
    code, out, _ = preflight("parse", "hccn_tool.link", stdin=b"\x1b[2J\xff\x00")
    assert code == 3
    assert "is not recognized" in out
    assert "\x1b" not in out


def test_a_file_is_parsed_like_stdin(tmp_path: Path) -> None:
    file = tmp_path / "hccn.conf"
    file.write_text("address_0=10.0.0.1\n", encoding="utf-8")
    assert preflight("parse", "hccn.conf", file)[:2] == (0, "address_0: 10.0.0.1\n")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_that_an_editor_or_PowerShell_wrote_is_parsed_as_well(tmp_path: Path, encoding: str) -> None:  # noqa: N802
    text = (Path(__file__).parents[2] / "cases/parsers/nvidia-smi.query/xml-driver-580.txt").read_text(encoding="utf-8")
    file = tmp_path / "gpus.xml"
    file.write_text(text, encoding=encoding)
    assert preflight("parse", "nvidia-smi.query", file) == preflight("parse", "nvidia-smi.query", stdin=text.encode())


def test_what_is_no_ordinary_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # as /dev/null, which root could replace
    with pytest.raises(PreflightError, match=r"cannot write the facts to .*pipe: not a regular file"):
        write_whole(pipe, "text", "the facts")
    assert pipe.is_fifo() and [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_the_list_names_every_parser_with_a_sentence() -> None:
    code, out, _ = preflight("parse", "--list")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()} == set(PARSERS)
    assert all(len(line.split()) > 3 for line in out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["hccn_tool.lnk"], "there is no parser 'hccn_tool.lnk'. Did you mean hccn_tool.link?"),
        (["weather"], "To list the parsers: preflight parse --list"),
        ([], "PARSER is missing."),
        (["hccn_tool.link", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["hccn_tool.link", "/"], "/: Is a directory"),
    ],
)
def test_a_wrong_parser_or_file_is_one_sentence_and_exit_2(arguments: list[str], sentence: str) -> None:
    code, out, err = preflight("parse", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err


def test_facts_of_this_machine_are_a_document_of_the_contract() -> None:
    code, out, _ = preflight("facts", "--local", "-o", "json")
    assert code in (0, 3)
    document = json.loads(out)
    assert document["schema"] == "preflight.facts/1"
    (host,) = document["hosts"].values()
    assert host["os"]["value"]["kernel"] == os.uname().release
    assert all(set(section) in ({"value"}, {"error"}) for section in host.values())


def test_raw_facts_keep_what_the_values_were_read_from() -> None:
    document = json.loads(preflight("facts", "--local", "-o", "json", "--raw")[1])
    (host,) = document["hosts"].values()
    assert "/proc" not in host["os"]["raw"]["os"]["release"]
    assert host["network"]["raw"]["network"]["routes"].lstrip().startswith("[")


def test_saved_facts_are_written_to_the_file_and_nothing_else_to_stdout(tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    code, out, err = preflight("facts", "--local", "--out", file)
    assert code in (0, 3)
    assert out == ""
    assert str(file) in err
    assert json.loads(file.read_text(encoding="utf-8"))["schema"] == "preflight.facts/1"


def test_a_file_that_cannot_be_written_is_one_sentence() -> None:
    code, _, err = preflight("facts", "--local", "--out", "/no/such/folder/facts.json")
    assert code == 2
    assert "/no/such/folder/facts.json: cannot write in /no/such/folder: No such file or directory" in err


def test_an_outline_shows_nested_values_and_no_control_characters() -> None:
    value = {"a": None, "b": [], "c": {"d": "x\x1b[2J", "error": ""}, "e": "one\ntwo\n", "f": [{"g": [{"h": 1}]}]}
    assert list(outline(value)) == [
        "a: -",
        "b: none",
        "c: d x\\x1b[2J",
        "e:",
        "  | one",
        "  | two",
        "f:",
        "  0:",
        "    g:",
        "      0: h 1",
    ]
