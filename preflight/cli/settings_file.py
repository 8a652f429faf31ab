"""Reader of config.toml, which reports the first mistake with its line."""

from pathlib import Path

from preflight.bounded_file import read_bounded
from preflight.cli.options import MOST_AT_ONCE
from preflight.cli.report_options import FORMATS
from preflight.cli.settings import Settings
from preflight.inventory import toml_of
from preflight.inventory.key_lines import KeyLines
from preflight.model.errors import UsageError

_LARGEST_FILE = 1 << 20  # bytes


def read_settings(path: Path) -> Settings:
    """Return the values of the file. Raise UsageError in one sentence, with file and line."""
    text = _text(path)
    values = toml_of(path, text)
    for key, value in values.items():
        if problem := _problem(key, value):
            raise UsageError(f"{path}:{KeyLines(text).of((key,))}: {key}: {problem}")
    inventory = values.get("inventory")
    return Settings(
        path.absolute().parent / Path(inventory).expanduser() if inventory else None,
        values.get("pool"),
        values.get("output"),
    )


def _text(path: Path) -> str:
    try:
        content = read_bounded(path, _LARGEST_FILE)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8 text. Save the file as UTF-8.") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _is_path(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(value) and bool(Path(value).expanduser())
    except RuntimeError:  # no such user
        return False


def _problem(key: str, value: object) -> str:
    """Return what is wrong with a key or its value, or ""."""
    if key == "inventory":
        return "" if _is_path(value) else "should be the path of an inventory"
    if key == "pool":
        is_number = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_AT_ONCE
        return "" if is_number else f"should be a number from 1 to {MOST_AT_ONCE}"
    if key == "output":
        return "" if value in FORMATS else f"should be one of {', '.join(FORMATS)}"
    return f"unknown key. The keys are {', '.join(Settings._fields)}."
