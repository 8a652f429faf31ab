"""The files that [host_setup] of the inventory changes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Environment:
    """Texts of files. If the inventory does not set a file up, only text that preflight may have left in it."""

    hosts: str | None  # /etc/hosts
    limits_files: dict[str, str]  # path → text: /etc/security/limits.conf and limits.d
    profile: str | None  # preflight's file in /etc/profile.d
    nr_open: int | None = None  # fs.nr_open, the maximum of nofile; None: not visible


@dataclass
class RawEnvironment:
    """The section as the collector sends it: see preflight/remote/collect."""

    hosts: str | None
    limits: dict[str, str]
    profile: str | None
    nr_open: str | None


def environment(raw: RawEnvironment) -> Environment:
    limit = (raw.nr_open or "").strip()
    return Environment(
        raw.hosts, raw.limits, raw.profile, int(limit) if limit.isdecimal() and len(limit) < 20 else None
    )
