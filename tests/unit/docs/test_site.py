"""The documentation as a site, and as a git host shows it."""

import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")})
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`make docs`, elsewhere. Strict: a link or an anchor that leads nowhere, and a page that nav forgets, end it. Not
    quiet: what is not logged is not counted as a warning either."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_asks_no_other_host(site: Path) -> None:
    loads = re.compile(r"<(?:link|script|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^\s>]*")
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    assert [found for page in pages for found in loads.findall(page.read_text(encoding="utf-8"))] == []


def test_every_link_of_the_site_leads_to_a_file_of_it(site: Path) -> None:
    """Also to files outside docs, which MkDocs would not look for."""
    led = 0
    for page in site.rglob("*.html"):
        for target in re.findall(r"<a\b[^>]*?\bhref=\"?([^\"\s>#]+)", page.read_text(encoding="utf-8")):
            if not re.match(r"\w+:|/", target) and page.name != "404.html":
                led += 1
                assert (page.parent / target).exists(), f"{page.relative_to(site)}: {target}"
    assert led > 1000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere_on_a_git_host(page: Path) -> None:
    for path, anchor in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{path}: no such file"
        assert target.is_relative_to(ROOT), f"{path}: outside the repository"
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}: no such heading"


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """What git hosts call the page's headings."""
    return frozenset(_anchors(without_code(page.read_text(encoding="utf-8"))))


def _anchors(text: str) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        yield "".join(_kept(sign) for sign in words)


def _kept(sign: str) -> str:
    if sign == " ":
        return "-"
    return sign if sign in "-_" or unicodedata.category(sign)[0] in "LN" else ""


def test_all_pages_are_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        reached.add(page)
        links = (path for path, _ in LINK.findall(without_code(page.read_text(encoding="utf-8"))) if path)
        todo += {(page.parent / path).resolve() for path in links if path.endswith(".md")} - reached
    assert [page for page in PAGES if page not in reached | {ROOT / "CHANGELOG.md"}] == []


def test_the_chinese_readme_has_what_the_readme_has() -> None:
    """The same commands, outputs, names and links, and the same figures; what is said of them is in Chinese."""
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
    assert blocks(chinese) == blocks(english)
    for what in (r"`([^`]+)`", r"\]\(([^)#]+)", r"\b\d+(?:\.\d+)*\b"):
        assert found(what, chinese) == found(what, english), what


def blocks(page: str) -> list[list[str]]:
    """The lines of each block of code, without comments."""
    return [
        [line.partition("    # ")[0].rstrip() for line in block.splitlines()]
        for block in re.findall(r"^```.*?^```$", page, re.DOTALL | re.MULTILINE)
    ]


def found(what: str, page: str) -> set[str]:
    return {*re.findall(what, without_code(page), re.ASCII)} - {"README.md", "README.zh-CN.md"}
