"""Options of use cases."""

from pathlib import Path

DEFAULT_INVENTORY = Path("hosts.toml")
