"""Removal of a user's shared memory by systemd-logind: RemoveIPC of logind.conf(5). Pure."""

import re
from collections.abc import Sequence

# Blanks instead of \s, which crosses lines: it takes the next line for the value, and is slow on a file of empty lines.
_LINE = re.compile(r"^[ \t]*RemoveIPC[ \t]*=[ \t]*(\S*)[ \t\r]*$", re.MULTILINE)
_WORDS = {"yes": True, "true": True, "1": True, "on": True, "no": False, "false": False, "0": False, "off": False}
_YES_UNLESS_SET = (
    "debian",
    "ubuntu",
)  # systemd's default; the default of Red Hat's builds, and of those derived from them, is no


def remove_ipc(files: Sequence[tuple[str, str]] | None, distribution: str) -> bool | None:
    """Return whether logind removes shared memory; None: not known.

    `files`: path and text; the last one that sets it counts. None: logind does not run. `distribution`: ID of
    /etc/os-release.
    """
    if files is None:
        return None
    setting = None
    for _, text in files:
        for word in _LINE.findall(text):
            setting = _WORDS.get(word.lower(), setting)
    return True if setting is None and distribution in _YES_UNLESS_SET else setting
