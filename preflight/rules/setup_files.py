"""The texts for [host_setup]: our block in /etc/hosts, our file of limits.d, our file of profile.d. Pure."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from preflight.model.cluster import Cluster, HostSetup

HOSTS_FILE = "/etc/hosts"
LIMITS_FILE = "/etc/security/limits.d/90-preflight.conf"
PROFILE_FILE = "/etc/profile.d/preflight-hccl.sh"
MARK = "# Written by preflight"
BEGIN = "# BEGIN preflight: the cluster's hosts, from its inventory"
END = "# END preflight"
LIMITS_LINE = re.compile(rf"{MARK}.*|(?:\*|root) (?:soft|hard) (?:memlock|nofile) \S+")
PROFILE_LINE = re.compile(rf"{MARK}.*|export HCCL_\w+='.*'")
_UNLIMITED = ("unlimited", "infinity", "-1")


class BlockDamagedError(ValueError):
    """The markers of our block in the file are incomplete or out of order."""


def ours(text: str | None) -> bool:
    """Return whether a file holds, or is, a text that preflight has written."""
    return text is not None and (text.startswith(MARK) or BEGIN in text.splitlines())


def with_others(text: str | None, wanted: str | None, own: re.Pattern[str]) -> str | None:
    """Return the content of a file of ours: `wanted`, and after it the lines of `text` that preflight would not write.

    `own`: the form of our lines."""
    lines = (text or "").splitlines(keepends=True)
    return (wanted or "") + "".join(line for line in lines if not own.fullmatch(line.rstrip("\r\n"))) or None


def with_block(text: str, lines: Sequence[str]) -> str:
    """Return the text with our block made of `lines`, at the place of the old one or at the end; without lines, without
    it.

    Every other byte is kept. Raise BlockDamagedError if the old block is incomplete."""
    block = "\n".join((BEGIN, *lines, END, "")) if lines else ""
    if _holds_block(text, block):
        return text  # 4,000 hosts have 4,000 lines each
    rows = text.splitlines(keepends=True)
    bare = [row.rstrip("\r\n") for row in rows]
    if BEGIN not in bare and END not in bare:
        return with_last_lines(text, block) if block else text
    if bare.count(BEGIN) != 1 or bare.count(END) != 1 or bare.index(END) < bare.index(BEGIN):
        raise BlockDamagedError(f"the lines {BEGIN!r} and {END!r} must each occur exactly once, in this order")
    return "".join([*rows[: bare.index(BEGIN)], block, *rows[bare.index(END) + 1 :]])


def with_last_lines(text: str, lines: str) -> str:
    """Return the text with `lines` after it, on lines of their own."""
    return text + ("\n" if text and not text.endswith("\n") else "") + lines


def _holds_block(text: str, block: str) -> bool:
    is_one = bool(block) and text.count(BEGIN) == text.count(END) == 1
    return is_one and f"\n{text}".startswith(f"\n{block}", text.find(BEGIN))


def limits_file(setup: HostSetup) -> str | None:
    """Return the whole of our file in limits.d; None where no limit is wanted. "*" does not mean root
    (limits.conf(5))."""
    values = [("memlock", setup.memlock), ("nofile", str(setup.nofile or ""))]
    rows = [
        f"{domain} {kind} {item} {value}\n"
        for item, value in values
        if value
        for domain in ("*", "root")
        for kind in ("soft", "hard")
    ]
    return f"{MARK}: limits for training jobs. They apply from the next login.\n" + "".join(rows) if rows else None


def lower_limits(setup: HostSetup, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield lines of other files, path → text, that set a lower limit and win over ours.

    They name a user or a group, or are in a file that is read later."""
    wanted = {"memlock": setup.memlock, "nofile": str(setup.nofile or "")}
    for path in sorted(set(files) - {LIMITS_FILE}, key=lambda path: ("limits.d/" in path, posixpath.basename(path))):
        later = "limits.d/" in path and posixpath.basename(path) > posixpath.basename(LIMITS_FILE)
        for row in files[path].splitlines():
            words = row.partition("#")[0].split()
            if len(words) != 4 or (words[0] in ("*", "root") and not later):
                continue
            if wanted.get(words[2]) and _lower(words[3], wanted[words[2]]):
                yield path, " ".join(words)


def _lower(value: str, wanted: str) -> bool:
    if value in _UNLIMITED or not value.isdecimal():
        return False
    return wanted in _UNLIMITED or int(value[:18]) < int(wanted)


def profile_file(cluster: Cluster, interface: str) -> str | None:
    """Return the whole of our file in profile.d; None where the inventory has none. `interface`: the host NIC, if it is
    known."""
    own = cluster.setup.profile
    if own is None:
        return None
    variables = {}
    if cluster.hccl_host_range:
        variables["HCCL_HOST_SOCKET_PORT_RANGE"] = cluster.hccl_host_range
    elif cluster.hccl_ports:
        variables["HCCL_IF_BASE_PORT"] = str(cluster.hccl_ports.ranges[0][0])
    if interface:
        variables["HCCL_SOCKET_IFNAME"] = f"={interface}"  # "=": exactly this one
    rows = [f"export {name}={_quoted(value)}\n" for name, value in {**variables, **own}.items()]
    return f"{MARK}: common variables of the HCCL jobs of cluster {cluster.name}.\n" + "".join(rows)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
