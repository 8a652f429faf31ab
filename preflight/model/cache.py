"""Where preflight keeps what it can make again: compiled stand-ins, what the checks say of themselves."""

import os
from pathlib import Path


def cache_home() -> Path:
    """preflight's folder below the user's cache directory (XDG Base Directory specification); it may not be there."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "preflight"
