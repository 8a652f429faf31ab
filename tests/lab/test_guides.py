"""The pages of docs/guides, command by command (pages.py has how), in labs shaped like their sites (sites.py)."""

from pathlib import Path

import pytest

from tests.lab.conftest import ROOT, MakeLab
from tests.lab.pages import Step, assert_fits, steps
from tests.lab.sites import SITES, lab_of, seated

pytestmark = pytest.mark.lab

GUIDES = ROOT / "docs" / "guides"


@pytest.mark.parametrize("page", SITES)
def test_every_command_of_the_page_does_what_it_shows(make_lab: MakeLab, tmp_path: Path, page: str) -> None:
    lab = lab_of(make_lab, SITES[page])
    desk = seated(lab, SITES[page], tmp_path)
    todo = list(steps((GUIDES / f"{page}.md").read_text()))
    assert todo
    for step in todo:
        desk.run(step)
    lab.lab("down")


def test_no_page_is_without_a_site_and_all_are_short() -> None:
    pages = {path.stem: path.read_text() for path in GUIDES.glob("*.md")}
    assert pages.keys() - {"README"} == SITES.keys()
    for name, text in pages.items():
        assert_fits(name, text, most=120)


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("a b\n", "a\n  b\n", True),
        ("a …\nc\n", "a x\ny\nc\n", True),
        ("loss 0.5…\n", "loss 0.541\n", True),
        ("", "", True),
        ("", "a\n", False),
        ("a\n", "a\nb\n", False),
        ("a\n… b\n", "b\na\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_shown_and_said_are_compared_but_for_what_is_left_out(shown: str, said: str, same: bool) -> None:
    assert Step(1, "true", 0, shown).came(said) is same


def test_commands_are_found_with_their_lines_and_exit_codes() -> None:
    page = "# T\n\n```\n$ no\n```\n\n```console\n$ one \\\n    more\nx\n\n$ two    # exit 3\n```\n"
    assert list(steps(page)) == [Step(8, "one \\\n    more", 0, "x\n\n"), Step(12, "two    # exit 3", 3, "")]
