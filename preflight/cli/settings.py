"""The user's own defaults of options: the variable PREFLIGHT_INVENTORY, and the file config.toml."""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

from preflight.app.options import DEFAULT_INVENTORY, DEFAULT_POOL, DefaultPath
from preflight.model.places import config_home

VARIABLE = "PREFLIGHT_INVENTORY"


class Settings(NamedTuple):
    """The values of a configuration file. Those that it does not have are None."""

    inventory: Path | None = None
    pool: int | None = None
    output: str | None = None


def fill_in(args: argparse.Namespace) -> None:
    """Give options without a value their defaults: of the variable, else of the file, else of preflight.

    Raise UsageError for an invalid file. Commands that contact no hosts have no such options.
    """
    if not hasattr(args, "inventory"):
        return
    settings = _settings()
    variable = os.environ.get(VARIABLE)
    inventory = Path(variable) if variable else settings.inventory
    args.default_inventory = DefaultPath(inventory) if inventory else DEFAULT_INVENTORY
    if args.inventory is DEFAULT_INVENTORY:
        args.inventory = args.default_inventory
    if getattr(args, "pool", 0) is None:
        args.pool = settings.pool or DEFAULT_POOL
    if hasattr(args, "outputs"):
        args.default_output = settings.output or "console"


def _settings() -> Settings:
    """Return the values of the configuration file, if there is one. Only then is a parser of TOML loaded."""
    try:
        path = config_home() / "config.toml"
        is_there = path.exists()
    except RuntimeError:  # no home directory
        return Settings()
    except OSError:
        is_there = True  # reading it reports the error
    if not is_there:
        return Settings()
    from preflight.cli.settings_file import read_settings

    return read_settings(path)
