"""A hook of MkDocs: pages link to files outside docs/ as a git host wants it (`../examples/two-servers.toml`), and the
site holds these files, too, so that the same links lead somewhere from a disk.

In the site the places of docs/ and of the repository are one: docs/design.md is design.html, CONTRIBUTING.md is
CONTRIBUTING.html, examples/two-servers.toml stands as it is below examples/.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "README.zh-CN.md", "benchmarks/README.md")  # of nav, and outside docs/
HOME = {"README.md": "docs/index.md"}  # what stands for it in the site
LINK = re.compile(r"(?P<text>\[(?:[^\[\]]|\[[^\]]*\])*\])\((?!\w+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside, and the files that all pages link to."""
    texts = [(f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    texts += [(page, (ROOT / page).read_text(encoding="utf-8")) for page in PAGES]
    linked = {target for path, text in texts for target in _targets(path, text)}
    for target in sorted({*linked, *PAGES} - {*HOME}):
        if not target.startswith("docs/") and (ROOT / target).is_file():
            files.append(File(target, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page with links as they are in the site. A folder has no page there: its link becomes its text."""
    in_site = page.file.src_uri
    path = in_site if in_site in PAGES else f"docs/{in_site}"

    def moved(link: re.Match[str]) -> str:
        target = _target(path, link["path"])
        if (ROOT / target).is_dir():
            return link["text"][1:-1]
        target = HOME.get(target, target).removeprefix("docs/")
        return f"{link['text']}({posixpath.relpath(target, posixpath.dirname(in_site) or '.')}{link['anchor'] or ''})"

    return LINK.sub(moved, markdown)


def _targets(path: str, text: str) -> Iterator[str]:
    return (_target(path, link["path"]) for link in LINK.finditer(text))


def _target(path: str, link: str) -> str:
    """What a page's link means, as a path of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
