"""/etc/hccn.conf: `key_<device>=value` lines, written by every `hccn_tool … -s`, read at boot.

If a key is in it twice, the tool uses the first line (driver source: cfg.c, `cfg_inner_read_conf_byfd`).
"""

import re

from preflight.facts.types import Missing
from preflight.model.text import quote

_LINE = re.compile(r"(\w{1,60}_\d{1,3})=(.{0,500})")


def entries(text: str) -> dict[str, str] | Missing:
    """Return key and value in the file's order, without comments; of a key that is there twice the first."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if not match:
            return Missing(f"/etc/hccn.conf:{number}: {quote(line)} is not key_DEVICE=value")
        values.setdefault(match.group(1), match.group(2).strip())
    return values
