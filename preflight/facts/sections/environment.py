"""The files that [host_setup] of the inventory is about."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Environment:
    """Texts of files; of those that the inventory asks nothing of, only what preflight may have left in them."""

    hosts: str | None  # /etc/hosts
    limits_files: dict[str, str]  # path → text: /etc/security/limits.conf and limits.d
    profile: str | None  # our file of /etc/profile.d
    nr_open: int | None = None  # fs.nr_open: the most that nofile can be; None: not to be seen


@dataclass
class RawEnvironment:
    """What the collector sends: see preflight/remote/collect."""

    hosts: str | None
    limits: dict[str, str]
    profile: str | None
    nr_open: str | None


def environment(raw: RawEnvironment) -> Environment:
    limit = (raw.nr_open or "").strip()
    return Environment(
        raw.hosts, raw.limits, raw.profile, int(limit) if limit.isdecimal() and len(limit) < 20 else None
    )
