"""The reference in docs says what the code says."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.cli.changes.questions import PENDING
from preflight.cli.main import COMMANDS
from preflight.inventory import parse
from preflight.model.cluster import Product
from preflight.model.errors import NotSeenError, PreflightError, UsageError
from tests.generated import DOCS, GENERATED, made

PREFLIGHT = DOCS.parent / "preflight"


@pytest.mark.parametrize("page", GENERATED)
def test_what_is_made_from_the_code_is_current(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == made(page), "run: python -m tests.generated"


def test_the_readme_names_every_command() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if not re.search(rf"`{name}[` ]", readme)] == []


def test_the_exit_codes_are_those_of_the_code() -> None:
    listed = re.findall(r"^\| (\d+) \| ", (DOCS / "contracts.md").read_text(encoding="utf-8"), re.MULTILINE)
    of_errors = {PreflightError.exit_code, UsageError.exit_code, NotSeenError.exit_code}
    assert {*map(int, listed)} == {*_returned_by_main(), *of_errors, PENDING}
    assert len(listed) == len(set(listed))


def test_other_errors_have_no_codes_of_their_own() -> None:
    """All classes with an exit code, wherever they are, keep to those of the page."""
    assigned = {
        int(code)
        for path in PREFLIGHT.rglob("*.py")
        for code in re.findall(r"^    exit_code = (\d+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert assigned == {PreflightError.exit_code, UsageError.exit_code, NotSeenError.exit_code}


def _returned_by_main() -> Iterator[int]:
    for node in ast.walk(ast.parse((PREFLIGHT / "cli" / "main.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant):
            assert isinstance(node.value.value, int)
            yield node.value.value


def test_every_key_of_the_inventory_is_on_its_page_and_no_other() -> None:
    page = (DOCS / "inventory.md").read_text(encoding="utf-8")
    keys = set(_keys_of_schema())
    named = set(_keys_of_page(page))
    assert len(named) > 40
    assert named - keys == set()
    assert [key for key in keys - named if f"`{key.partition('.')[2]}`" not in page] == []


def test_the_inventories_of_the_products_are_whole() -> None:
    page = (DOCS / "products.md").read_text(encoding="utf-8")
    clusters = [parse(text, Path("hosts.toml")) for text in re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.M)]
    assert [cluster.product for cluster in clusters] == [each for each in Product if each is not Product.CPU]


def test_the_rows_on_accuracy_are_those_that_were_measured() -> None:
    page = (DOCS / "localise.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| .*$", page, re.MULTILINE)
    measured = (DOCS / "accuracy.md").read_text(encoding="utf-8").splitlines()
    assert len(rows) > 5
    assert [row for row in rows if row not in measured] == []


def test_the_house_is_drawn_as_its_imports_are_held() -> None:
    contracts = tomllib.loads((PREFLIGHT.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [re.findall(r"preflight\.(\w+)", layer) for layer in contracts["contracts"][0]["layers"]]
    drawn = re.findall(r'y="(\d+)">(\w+)</text>', (DOCS / "img" / "house.svg").read_text(encoding="utf-8"))
    heights = sorted({int(y) for y, name in drawn if [name] in layers or any(name in layer for layer in layers)})
    rows = [{name for y, name in drawn if int(y) == height} for height in heights]
    assert rows == [set(layer) for layer in layers]


def _keys_of_schema() -> Iterator[str]:
    """Each "section.key"."""
    schema = json.loads((DOCS / "inventory.schema.json").read_text(encoding="utf-8"))
    for section, value in schema["properties"].items():
        for name in re.findall(r"#/\$defs/(\w+)", json.dumps(value)):
            yield from (f"{section}.{key}" for key in schema["$defs"][name].get("properties", ()))


def _keys_of_page(page: str) -> Iterator[str]:
    """The same, from the first column of the table of keys: the first key of a row tells the section of all."""
    for row in re.findall(r"^\| (`[a-z_]+(?:\[\])?\..*?) \|", page, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", row)
        section, _, key = first.replace("[]", "").partition(".")
        yield from (f"{section}.{each.rpartition('.')[2]}" for each in (key, *others) if each != "*")
