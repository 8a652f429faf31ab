"""Folders of preflight on the controller (XDG Base Directory specification)."""

import os
from pathlib import Path


def cache_home() -> Path:
    """Return the folder for files that can be made again, such as compiled stand-ins. It may not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "preflight"


def config_home() -> Path:
    """Return the folder for the user's configuration file. It may not exist."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "preflight"


def state_home() -> Path:
    """Return the folder for journals and history. It may not exist."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "preflight"
