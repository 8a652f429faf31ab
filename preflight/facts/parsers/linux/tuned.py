"""Reserved ports from the active profiles of tuned, read as tuned 2.20 reads them.

tuned's code for that is in profiles/loader, profiles/merger and plugin_sysctl.
"""

import configparser
import posixpath
import re
from collections.abc import Iterator, Mapping

from preflight.facts.types import Tuned

# An administrator's profile hides the distribution's one of the same name. tuned 2.23 moved both into `profiles`.
FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
_KEY = "net.ipv4.ip_local_reserved_ports"
_NO = ("0", "no", "false", "off")
_MOST = 50  # profiles that include one another


class _UnreadableError(Exception):
    """The reason why the effect of tuned is not known: one sentence."""


def tuned(active: str, post_loaded: str, main: str, files: Mapping[str, str]) -> Tuned | None:
    """Return the value that tuned sets for the key; None if its active profiles do not set it.

    `active`, `post_loaded`: texts of /etc/tuned/active_profile and post_loaded_profile, names separated by blanks.
    `main`: the text of tuned-main.conf. `files`: path → text of every profile's tuned.conf.
    """
    names = [*active.split(), *post_loaded.split()]
    try:
        value, source = None, ""
        for path, sections in _profiles(names, files, set()):
            value, source = _after(sections, value, source, path)
        options = _sections("tuned-main.conf", "[main]\n" + main)["main"]
    except _UnreadableError as error:
        return Tuned(" ".join(names), "", "", error=str(error))
    if value is None:
        return None
    reapply = options.get("reapply_sysctl", "1").strip().lower() not in _NO
    warning = f"{source} sets it by a variable, {value}" if "${" in value else ""
    return Tuned(" ".join(names), source, value, reapply, files[source], warning)


def _profiles(
    names: list[str], files: Mapping[str, str], visited: set[str]
) -> Iterator[tuple[str, Mapping[str, Mapping[str, str]]]]:
    """Yield the profiles in the order of their effect: the last one wins. An included profile is before the other."""
    for name in names:
        bare = posixpath.basename(name.removeprefix("-"))
        path = next((file for folder in FOLDERS if (file := f"{folder}/{bare}/tuned.conf") in files), "")
        if path in visited or (not path and name.startswith("-")):  # "-name": may be missing
            continue
        if not path or len(visited) >= _MOST:
            raise _UnreadableError(f"tuned profile {name} was not found")
        visited.add(path)
        sections = _sections(path, files[path])
        include = sections.get("main", {}).get("include", "")
        if "${" in include:
            raise _UnreadableError(f"{path} includes a profile through a variable: {include}")
        yield from _profiles([*filter(None, map(str.strip, re.split("[,;]", include)))], files, visited)
        yield path, sections


def _sections(path: str, text: str) -> Mapping[str, Mapping[str, str]]:
    parser = configparser.RawConfigParser(
        delimiters=("=",), inline_comment_prefixes=("#",), strict=False, allow_no_value=True, default_section="\0"
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise _UnreadableError(f"{path} cannot be parsed: {str(error).splitlines()[0]}") from error
    return {name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()}


def _after(
    sections: Mapping[str, Mapping[str, str]], value: str | None, source: str, path: str
) -> tuple[str | None, str]:
    """Return the value, and the file that it comes from, after one more profile."""
    for name, options in sections.items():
        if options.get("type", name) != "sysctl":
            continue
        is_disabled = options.get("enabled", "1").strip().lower() in _NO
        if is_disabled or options.get("replace", "0").strip().lower() not in _NO or _KEY in options.get("drop", ""):
            value, source = None, ""
        for key, text in options.items():
            if key in (_KEY, _KEY.replace(".", "/")) and not is_disabled:
                value, source = text.strip().strip("\"'"), path
    return value, source
