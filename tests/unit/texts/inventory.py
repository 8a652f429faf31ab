"""Keys, values and whole blocks of hosts.toml in texts, tried with its schema and its loader."""

import re
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from preflight.inventory import parse
from preflight.inventory.errors import InventoryError
from preflight.inventory.schema import Document
from preflight.model.cluster import Product
from tests.unit.texts.passages import Kind, Mistake, Passage, mistake

SECTIONS = frozenset(Document.model_fields)
# Keys of tables that the schema takes as plain dictionaries.
_OF_DICTIONARIES = {"host_setup.limits": ("memlock", "nofile")}
_FILE_ENDINGS = frozenset({"c", "deny", "json", "jsonl", "log", "md", "off", "py", "sh", "toml", "txt"})
SLIPS = frozenset({"ssh.prot"})  # in docs/inventory.md, which shows what the loader says of it


_DOTTED = re.compile(r"(?<![\w./$@-])([a-z_]+)(?:\[\])?\.([a-z_]+(?:\.[a-z_]+)*)(?![\w(/-])")
_HEADER = re.compile(r"(?<![\w\]\"'-])\[\[?([a-z_]+)\]\]?(?![\w\](*\[])")
_AFTER_HEADER = re.compile(r"(?: of the inventory)? ([a-z][a-z_]+)(?: =|$)")
_BEFORE_HEADER = re.compile(r"\b(?:under|in|of) $|^$")
_ABOUT_INVENTORY = re.compile(r" (?:of|in) the inventory\b")
# The thing that a table is said to hold: "addresses in the inventory ([network] …)", "no setup under [probe]".
_NOUN = re.compile(r"\b([a-z_]+) (?:in|under)(?: the inventory)? \(?$")
_PAIR = re.compile(
    r"(?<![\w./$@{-])(?<!\(\()(?:\[([a-z_]+)\] )?((?:[a-z_]+\.)?[a-z][a-z_]*) = "
    r"(\"[^\"\n]*\"|true\b|false\b|[0-9][\w.:-]*|\[[^\]\n]*(?:\]|$)|\{[^{}\n]*(?:\}|$)|[\ue000…]+)"
    r"(?:`?(?: stands)?,? (?:under|in) `?\[([a-z_]+)\])?"
)
_OPEN = re.compile(r"[\ue000…]|\"[A-Z][A-Z0-9_]*\"|\.\.\.")  # a value that is not written out
_PRODUCT = re.compile(r"(?<![\w-])atlas-[a-z0-9]+(?![\w-]|\.\w)")
NAMES_OF_ATLAS = frozenset({"atlas-train"})  # the name of a cluster in inventory.example.toml


@cache
def tables() -> dict[str, list[type[BaseModel]]]:
    """Return the models of each table by its dotted name: "probe", "probe.expect", "hosts"."""
    return dict(_tables_of(Document, ""))


def _tables_of(model: type[BaseModel], above: str) -> Iterator[tuple[str, list[type[BaseModel]]]]:
    for key, field in model.model_fields.items():
        models = list(_models_in(field.annotation))
        if models:
            yield above + key, models
            for each in models:
                yield from _tables_of(each, f"{above}{key}.")


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _keys(table: str) -> frozenset[str]:
    """Return the keys that a table and the tables within it take."""
    inner: list[tuple[str, ...]] = []
    inner += [keys for name, keys in _OF_DICTIONARIES.items() if name == table or name.startswith(f"{table}.")]
    for name, models in tables().items():
        if name == table or name.startswith(f"{table}."):
            inner += [tuple(model.model_fields) for model in models]
    return frozenset(key for keys in inner for key in keys)


@cache
def _all_keys() -> frozenset[str]:
    return frozenset().union(*map(_keys, SECTIONS))


def mistakes_in_keys(passage: Passage) -> Iterator[Mistake]:
    """Yield each key, table and value of a passage that the schema does not have."""
    if not passage.shown or not _is_sentence(passage):
        return
    yield from _in_dotted(passage)
    yield from _in_headers(passage)
    yield from _in_pairs(passage)


def _is_sentence(passage: Passage) -> bool:
    is_query = bool(re.search(r"\b(?:SELECT|UPDATE|DELETE|WHERE|AND|PRAGMA)\b", passage.words))
    words = passage.words.strip()
    return (passage.kind is Kind.SPAN or " " in words or words.startswith("[")) and not is_query


def _in_dotted(passage: Passage) -> Iterator[Mistake]:
    for name in _DOTTED.finditer(passage.words):
        section, path = name[1], name[2].split(".")
        is_other = path[-1] in _FILE_ENDINGS or name[0] in SLIPS
        if section in SECTIONS and not is_other and not _has(section, path):
            yield mistake(passage, name[0], f"[{section}] of the inventory has no key {'.'.join(path)}")


def _has(table: str, path: list[str]) -> bool:
    for number, key in enumerate(path):
        known = {name for model in tables().get(table, ()) for name in model.model_fields}
        if key not in known | {*_OF_DICTIONARIES.get(table, ())}:
            return False
        table = f"{table}.{key}" if number + 1 < len(path) else table
    return True


def _in_headers(passage: Passage) -> Iterator[Mistake]:
    for header in _HEADER.finditer(passage.words):
        before, after = passage.words[: header.start()], passage.words[header.end() :]
        if header[1] in SECTIONS:
            yield from _of_known_table(passage, header[0], before, after)
        elif _is_meant_as_table(header[1], before, after):
            yield mistake(passage, header[0], f"the inventory has no table [{header[1]}]")


def _of_known_table(passage: Passage, header: str, before: str, after: str) -> Iterator[Mistake]:
    table = header.strip("[]")
    key = _AFTER_HEADER.match(after)
    if key and (passage.kind is Kind.SPAN or after.startswith(f" {key[1]} =")) and key[1] not in _keys(table):
        yield mistake(passage, header + key[0], f"[{table}] of the inventory has no key {key[1]}")
    noun = _NOUN.search(before)
    if noun and _stem(noun[1]) in _stems(_all_keys()) and _stem(noun[1]) not in _stems(_keys(table) | {table}):
        yield mistake(passage, noun[0] + header, f"[{table}] of the inventory has no key for {noun[1]}")


def _stem(word: str) -> str:
    return re.sub(r"(?<=ss)es$|(?<!s)s$", "", word)


def _stems(keys: frozenset[str]) -> set[str]:
    """Return the words that keys are made of, in the singular."""
    return {_stem(part) for key in keys for part in key.split("_")}


def _is_meant_as_table(word: str, before: str, after: str) -> bool:
    close = bool(get_close_matches(word, SECTIONS, 1, 0.75))
    return close or bool(_BEFORE_HEADER.search(before) and _ABOUT_INVENTORY.match(after))


def _in_pairs(passage: Passage) -> Iterator[Mistake]:
    for pair in _PAIR.finditer(passage.words):
        header, name, value, under = pair.groups()
        above, _, key = name.rpartition(".")
        table = header or above or under or ""
        if (above and above not in SECTIONS) or _is_foreign(passage, key):
            continue
        if reason := pair_refusal(table, key, value):
            yield mistake(passage, pair[0], reason)


def _is_foreign(passage: Passage, key: str) -> bool:
    """Return whether a key is of a shell, or of a scheduler in the files that tie preflight to one."""
    of_others = passage.kind is Kind.LINE or passage.path.startswith("examples/schedulers/")
    return of_others and key not in _all_keys() | SECTIONS


def pair_refusal(table: str, key: str, value: str) -> str:
    """Return why no table, or not this one, takes a key with a value; or nothing."""
    if table and table not in SECTIONS:
        return f"the inventory has no table [{table}]"
    if key not in (_keys(table) if table else _all_keys()):
        if key in SECTIONS:
            return f"{key} is a table of the inventory; it takes no value"
        return f"{f'[{table}]' if table else 'no table'} of the inventory has {'no' if table else 'a'} key {key}"
    if _OPEN.search(value) or value.count("[") != value.count("]") or value.count("{") != value.count("}"):
        return ""
    try:
        read = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return ""
    fields = [
        model.model_fields[key]
        for name, models in tables().items()
        if not table or name == table or name.startswith(f"{table}.")
        for model in models
        if key in model.model_fields
    ]
    refusals = [_refusal(TypeAdapter(field.rebuild_annotation()), read) for field in fields]
    return "" if "" in refusals or not refusals else f"the inventory refuses {key} = {value}: {refusals[0]}"


def _refusal(adapter: TypeAdapter[Any], value: object) -> str:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    return ""


def mistakes_in_products(passage: Passage) -> Iterator[Mistake]:
    """Yield each name that looks like a product and is none."""
    for name in _PRODUCT.finditer(passage.words):
        if name[0] not in {*Product, *NAMES_OF_ATLAS}:
            yield mistake(passage, name[0], f"there is no product {name[0]}; there are {', '.join(Product)}")


def blocks_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each piece of an inventory on a page: a block of its own, or what a block prints
    of a file. Pieces with lines left out ("…") are for `mistakes_in_pieces`."""
    for start, lines in _pieces(text):
        if "…" not in (line.strip() for line in lines):
            yield start, "\n".join(lines)


def mistakes_in_pieces(path: str, text: str) -> Iterator[Mistake]:
    """Yield each line that no table takes, of the pieces of an inventory with lines left out."""
    for start, lines in _pieces(text):
        if "…" in (line.strip() for line in lines):
            for number, line in enumerate(lines):
                pair = _PAIR.match(line.strip())
                if pair and (reason := pair_refusal("", pair[2], pair[3])):
                    yield Mistake(path, start + number, line, reason)


def _pieces(text: str) -> Iterator[tuple[int, list[str]]]:
    lines: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), "```"], 1):
        header = _HEADER.fullmatch(line.strip().partition(" ")[0])
        if start and line.startswith(("```", "$ ")):
            yield start, lines
            lines, start = [], 0
        elif start:
            lines.append(line)
        elif header and header[1] in SECTIONS:
            lines, start = [line], number
        if re.match(r"\$ cat \S+\.toml$", line):
            start = number + 1


def block_refusal(block: str) -> str:
    """Return why the loader refuses a piece of an inventory that is completed with what it lacks, or nothing."""
    refusals = []
    for product in Product:
        try:
            parse(_completed(block, product), Path("hosts.toml"))
        except InventoryError as error:
            refusals.append(str(error))
        else:
            return ""
    return min(refusals, key=len)


def _completed(block: str, product: Product) -> str:
    missing = [f'{key} = "{value}"' for key, value in (("name", "x"), ("product", product))]
    cluster = re.search(r"^\[cluster\].*?(?=^\[|\Z)", block, re.DOTALL | re.MULTILINE)
    if cluster:
        missing = [line for line in missing if not re.search(rf"^{line.split()[0]} =", cluster[0], re.MULTILINE)]
        block = re.sub(r"^\[cluster\].*$", lambda line: "\n".join([line[0], *missing]), block, flags=re.MULTILINE)
    else:
        block = "\n".join([block, "[cluster]", *missing])
    return block if "[[hosts]]" in block else block + '\n[[hosts]]\nname = "node01"\n'
