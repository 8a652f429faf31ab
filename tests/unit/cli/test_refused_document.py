"""Files that are not what a command wants: what is wrong, and what to type, without the words of a decoder."""

import re
from pathlib import Path

import msgspec
import pytest

from preflight.cli.main import main
from preflight.facts.documents.refused_document import KINDS, json_error
from tests.unit.checks.test_advice import accepted, advised, hosts

__all__ = ["hosts"]  # the fixture

WRONG = {
    "list": (b"[]", "it should be an object in { }, but is a list in [ ]"),
    "text": (b'"x"', "it should be an object in { }, but is text in quotes"),
    "empty": (b"", "it is empty"),
    "cut": (b'{"schema": "preflight.', "the file is truncated: the JSON is incomplete"),
    "prose": (b'{"schema": "x",\n oops}', "line 2, column 2 is not JSON"),
    "deep": (b"[" * 100_000, "it "),
    "binary": (b"\xff\xfe\x00\x01", "it "),
    "nameless": (b"{}", 'it has no "schema"'),
}
COMMANDS = {
    "preflight.plan": ["apply"],
    "preflight.facts": ["check", "--from"],
    "preflight.report": ["diff"],
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", ["preflight.plan", "preflight.facts"])
def test_a_file_that_is_none_names_what_is_wrong_and_what_writes_one(
    kind: str, wrong: str, hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, (content, sentence) = hosts.with_name("x.json"), WRONG[wrong]
    file.write_bytes(content)
    assert main([*COMMANDS[kind], str(file)]) == 2
    error = capsys.readouterr().err
    assert f"preflight: {file}: not {KINDS[kind].name}: {sentence}" in error
    assert not re.search(r"Expected|Object missing|malformed|was truncated|`", error)
    assert advised(error) == [KINDS[kind].command.split()[1:]]
    assert accepted(advised(error)[0])


@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("kind", COMMANDS)
def test_a_document_of_another_kind_is_called_by_its_name(
    kind: str, other: str, hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == other or (kind == "preflight.report" and other in ("preflight.facts", "preflight.capture")):
        return
    if (kind, other) == ("preflight.facts", "preflight.capture"):
        return  # --from reads both
    file = hosts.with_name("x.json")
    file.write_text(f'{{"schema": "{other}/1", "hosts": {{}}}}')
    assert main([*COMMANDS[kind], str(file)]) == 2
    assert f"preflight: {file}: this is {KINDS[other].name}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_document_of_another_version_names_both_versions(
    kind: str, hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = hosts.with_name("x.json")
    file.write_text(f'{{"schema": "{kind}/99"}}')
    assert main([*COMMANDS[kind], str(file)]) == 2
    assert f"{file}: the schema is '{kind}/99', but this preflight reads {kind}/1" in capsys.readouterr().err


class _Inner(msgspec.Struct):
    size: int
    name: str | None = None


class _Outer(msgspec.Struct):
    hosts: dict[str, list[_Inner]]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ('{"hosts": {"a": [{"size": "1"}]}}', "hosts[...][0].size should be a whole number, but is text in quotes"),
        ('{"hosts": {"a": [{"size": 1, "name": 5}]}}', "hosts[...][0].name should be text in quotes or null, but is a"),
        ('{"hosts": {"a": [{}]}}', 'hosts[...][0] has no "size"'),
        ('{"hosts": {"a": 7}}', "hosts[...] should be a list in [ ], but is a whole number"),
    ],
)
def test_the_place_of_a_wrong_value_is_named(text: str, clause: str) -> None:
    with pytest.raises(msgspec.MsgspecError) as raised:
        msgspec.json.decode(text, type=_Outer)
    assert json_error(raised.value, text).startswith(clause)
