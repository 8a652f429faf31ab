"""The man page has every command, and groff formats it without a warning. test_reference.py compares it with the
parsers.
"""

import shutil
import subprocess

import pytest

from preflight.cli.main import COMMANDS
from tests.generated import DOCS
from tests.man_page import roff_text as escaped

PAGE = DOCS / "preflight.1"


def test_every_command_has_a_section() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [name for name in COMMANDS if f".SS preflight {escaped(name)}" not in lines] == []
    assert lines[0].startswith(".TH PREFLIGHT 1 ")


def test_the_page_is_ascii_so_that_every_locale_shows_it() -> None:
    assert PAGE.read_bytes().isascii()


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_groff_formats_it_without_a_warning() -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-Tutf8", str(PAGE)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "roff"),
    [("--a", r"\-\-a"), (".x", r"\&.x"), ("a\\b", r"a\eb"), ("'a'", r"\(aqa\(aq"), ("1 → 2", r"1 \[u2192] 2")],
)
def test_characters_with_a_meaning_for_roff_are_escaped(text: str, roff: str) -> None:
    assert escaped(text) == roff
