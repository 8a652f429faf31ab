"""Names of machines and users that no list has, found by their place in the hosts' answers. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from preflight.facts.redaction.encodings import decoded
from preflight.facts.redaction.public_names import (
    COMMON,
    FULL_NAME,
    FULL_NAME_IN_ANOTHER_SCRIPT,
    LABEL,
    OF_KUBERNETES,
    USERS,
    is_common,
    is_public,
)

_NAME = r"[A-Za-z0-9](?:[\w.-]{0,252}[A-Za-z0-9])?"
_USER = r"[A-Za-z_][\w.-]{0,31}"
_MACHINES = (
    re.compile(rf"\b[A-Za-z][A-Za-z0-9+.-]{{1,20}}://(?:[^\s/@\"'<>]{{1,200}}@)?({_NAME})"),
    re.compile(rf"(?:^|(?<=[\s'\"]))//({_NAME})/\w", re.MULTILINE),  # //server/share
)
# user@host:path, a shell's prompt, and a mail's address.
_LOGIN = re.compile(rf"(?<![\w.@/-])({_USER})@({_NAME})(?=:|[ \t]+[~/])")
# The address of a mail to a machine without a domain, in a comment.
_LOCAL_MAIL = re.compile(rf"#[^\n]{{0,400}}?(?<![\w.@/-])({_USER})@({_NAME})(?![\w.-])")
# A service or pod of Kubernetes with its namespace.
_OF_KUBERNETES = re.compile(
    rf"(?<![\w.-])((?:{LABEL}\.){{1,4}})(?:svc|pod)(?:\.cluster\.local)?(?![\w-]|\.\w)", re.ASCII
)
_MAIL = re.compile(rf"(?<![\w.@/-])({_USER})@({FULL_NAME.pattern})", re.IGNORECASE | re.ASCII)
_MACHINE_VARIABLE = re.compile(
    r"(?:\w*_)?(?:ADDR|ADDRESS|HOST|HOSTS|HOSTNAME|SERVER|SERVERS|MASTER|ENDPOINT|NODELIST|NODENAME|NODE_NAME)"
)
_VARIABLE = re.compile(r"(?<![\w$])([A-Z][A-Z0-9_]{1,60})=[\"']?([^\s\"';]{1,1000})")
# A setting in lower case, also in YAML, whose value is a machine. Without a digit or a port it may be any word.
_SETTING = re.compile(
    r"(?i:(?<![\w$])(?:\w{0,40}[_.-])?(?:addr|address|broker|endpoint|host|hosts|hostname|master|mirror|nameserver"
    r"|node|peer|proxy|registry|server|servers)[\"']?[ \t]{0,9}[=:][ \t]{0,9})"
    rf"[\"']?({_NAME})(:\d{{2,5}})?(?![\w/:])"
)
_MOUNTED = re.compile(rf"({_NAME}):/")
# The source in a command or a table of file systems: mount, /etc/fstab, rsync.
_REMOTE_FOLDER = re.compile(rf"(?:^|(?<=[\s\"'@=]))(?!error:|warning:|file:)({_NAME}):/[\w.-]", re.MULTILINE)
_MOUNTS = re.compile(r"\b(?:nfs4?|ceph|cifs|lustre|gpfs|mount|rsync|scp|sshfs)\b")
# A folder or a file of logs for a machine: /var/log/remote/gpu-07/messages, /data/logs/gpu-07.log.
_LOGS_OF_MACHINE = re.compile(
    r"/logs?/(?:[\w.-]{1,64}/){0,3}?(?!plog|rank|worker)([A-Za-z][A-Za-z_-]{0,40}\d[\w-]{0,40})(?=/|\.log\b)"
)
_USERS = (
    re.compile(rf"/home/({_USER})"),
    re.compile(rf"\b[ug]id=\d{{1,10}}\(({_USER})\)"),
    re.compile(rf"\b(?:UserName|UserGroup|USER|LOGNAME|SUDO_USER|User)=({_USER})"),
)
_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
_USER_KEYS = frozenset(("user", "group", "owner", "username"))


@dataclass(frozen=True)
class UnlistedNames:
    """The names, in lower case. `full_names`: those of machines or domains with dots. `machines`: single words."""

    full_names: frozenset[str] = frozenset()
    machines: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()


def search(documents: Iterable[Any]) -> UnlistedNames:
    """Return the names in JSON values, including those that are only in comments, variables and service addresses."""
    full_names: set[str] = set()
    machines: set[str] = set()
    users: set[str] = set()
    for document in documents:
        for key, text in _plain_texts(document):
            full_names.update(_full_names(text))
            for name in _machines(key, text):
                (full_names if FULL_NAME.fullmatch(name) else machines).add(name)
            users.update(name.lower() for name in _users(key, text))
    return UnlistedNames(
        frozenset(name for name in full_names if not is_public(name)),
        frozenset(name for name in machines if _is_telling(name)),
        frozenset(users - USERS),
    )


def _plain_texts(document: Any) -> Iterator[tuple[str, str]]:
    """Yield every text with its key, and the decoded forms of encoded words in it."""
    for key, text in _texts("", document):
        yield key, _ENCODED.sub(" ", text)
        yield from ((key, word) for word in decoded(text))


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every text, with the key of the value that contains it."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(key, item)
    elif isinstance(value, dict):
        for item_key, item in value.items():
            yield "", item_key
            yield from _texts(item_key, item)


def _full_names(text: str) -> Iterator[str]:
    """Yield the names with dots in a text, in lower case."""
    yield from (match[0].lower() for match in FULL_NAME.finditer(text))
    if not text.isascii():
        yield from (match[0].lower() for match in FULL_NAME_IN_ANOTHER_SCRIPT.finditer(text))


def _machines(key: str, text: str) -> Iterator[str]:
    """Yield the names of machines in a text, in lower case, by the place that they have in it."""
    for machines in (_in_urls_and_logins(text), _in_kubernetes(text), _in_variables(key, text), _in_paths(key, text)):
        yield from map(str.lower, machines)


def _in_urls_and_logins(text: str) -> Iterator[str]:
    for pattern in _MACHINES:
        if pattern is not _MACHINES[0] or "://" in text:
            yield from (match[1] for match in pattern.finditer(text))
    if "@" in text:
        yield from (match[2] for match in (*_LOGIN.finditer(text), *_LOCAL_MAIL.finditer(text)))


def _in_kubernetes(text: str) -> Iterator[str]:
    for match in _OF_KUBERNETES.finditer(text):
        yield from set(match[1].lower().split(".")) - OF_KUBERNETES - {""}


def _in_variables(key: str, text: str) -> Iterator[str]:
    """Yield the machines in the value of a key, and in variables and settings within a text."""
    if _MACHINE_VARIABLE.fullmatch(key):
        yield from _listed(text)
    for variable in _VARIABLE.finditer(text):
        if _MACHINE_VARIABLE.fullmatch(variable[1]):
            yield from _listed(variable[2])
    for setting in _SETTING.finditer(text):
        if setting[2] or any(map(str.isdigit, setting[1])):
            yield setting[1]


def _in_paths(key: str, text: str) -> Iterator[str]:
    """Yield the machines of mounts, of remote folders in commands, and of folders of logs."""
    if key == "source" and (mount := _MOUNTED.match(text)):
        yield mount[1]
    yield from (match[1] for match in _LOGS_OF_MACHINE.finditer(text))
    for line in text.splitlines() if ":/" in text else ():
        if _MOUNTS.search(line):
            yield from (match[1] for match in _REMOTE_FOLDER.finditer(line))


def _listed(value: str) -> Iterator[str]:
    """Yield the names in a variable's value: one, or several separated by commas, each with or without a port."""
    for part in re.split(r"[,\s]+", value):
        if match := re.fullmatch(rf"({_NAME})(?::\d{{1,5}})?", part):
            yield match[1]


def _users(key: str, text: str) -> Iterator[str]:
    if key in _USER_KEYS and re.fullmatch(_USER, text):
        yield text
    if "@" in text:
        logins = (*_LOGIN.finditer(text), *_LOCAL_MAIL.finditer(text))
        yield from (match[1] for match in logins if not is_common(match[2].lower()))
        yield from (match[1] for match in _MAIL.finditer(text))
    for pattern in _USERS:
        yield from (match[1].rstrip(".") for match in pattern.finditer(text))


def _is_telling(name: str) -> bool:
    """Return whether the name is specific, and not a number, an address or a common name of machines."""
    is_plain = name.isalpha() and (len(name) < 4 or name in COMMON)
    return not (is_plain or is_common(name) or re.fullmatch(r"[\d.]+|.*\.(?:service|py|sh|json|so|conf)", name))
