"""/etc/hccn.conf: `key_<device>=value` lines, written by every `hccn_tool … -s`, read at boot."""

import re

from preflight.facts.quote import quote
from preflight.facts.types import HccnConf, Missing

_LINE = re.compile(r"(\w{1,60}_\d{1,3})=(.{0,500})")


def hccn_conf(text: str) -> HccnConf | Missing:
    """Entries in the file's order; of a key that stands twice the last. Blank lines and comments are passed over."""
    entries = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if not match:
            return Missing(f"/etc/hccn.conf:{number}: {quote(line)} is not key_DEVICE=value")
        entries[match.group(1)] = match.group(2).strip()
    return HccnConf(True, entries, text)
