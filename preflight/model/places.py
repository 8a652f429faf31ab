"""Where preflight keeps things on the machine it is started on (XDG Base Directory specification)."""

import os
from pathlib import Path


def cache_home() -> Path:
    """preflight's folder for what it can make again: compiled stand-ins, what the checks say of themselves. It may not
    be there."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "preflight"


def state_home() -> Path:
    """preflight's folder for what was done from here: journals, history. It may not be there."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "preflight"
