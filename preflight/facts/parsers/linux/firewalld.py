"""firewalld: output of `firewall-cmd --list-all-zones`, and files of zones and services.

A rich rule has no comment. preflight's rules are identified by their priority, an unlikely number, and by their form,
which remote/apply/firewalld.py has, too. As it is below zero, they also come before a zone's rejecting rules.
"""

import re
from collections.abc import Iterator, Mapping

from preflight.facts.sections.firewall import Zone
from preflight.facts.types import Missing
from preflight.model.text import quote

PRIORITY = -29517
_OURS = re.compile(
    r"accept address=[0-9a-fA-F.:]{2,45}(?:/\d{1,3})? family=ipv[46] port port=[\d-]{1,11} "
    rf"priority={PRIORITY} protocol=tcp rule source"
)
_HEAD = re.compile(r"([\w-]{1,40})(?: \(.{1,60}\))?")
_PORT = re.compile(r'<port\b(?=[^>]{0,200}\bport="([\d-]{1,11})")(?=[^>]{0,200}\bprotocol="(\w{1,8})")')
_VERSION = re.compile(r"""^VERSION[ \t]{0,9}=[ \t]{0,9}['"](\d{1,4}(?:\.\d{1,4}){1,3})""", re.MULTILINE)
_DEFAULT_ZONE = re.compile(r"^DefaultZone[ \t]{0,9}=[ \t]{0,9}([\w-]{1,40})", re.MULTILINE)
_EVERY_PORT = "0-65535/tcp"
_SSH = '<service><port protocol="tcp" port="22"/></service>'


def is_ours(rich_rule: str) -> bool:
    """Return whether preflight made the rich rule, for any order of its words."""
    return _OURS.fullmatch(" ".join(sorted(rich_rule.replace('"', "").split()))) is not None


def zones(text: str, services: Mapping[str, str] | None = None) -> tuple[Zone, ...] | Missing:
    """Parse all zones. `services`: the XML of those that the site defined, by name.

    ssh is the only one of firewalld's own services that matters to a cluster.
    """
    zones_ = []
    definitions = {"ssh": _SSH, **(services or {})}
    for name, lines in _blocks(text):
        if "target" not in lines:
            return Missing(f"firewall-cmd --list-all-zones: {quote(name)} is not recognized")
        ports = lines.get("ports", "").split()
        ports += [port for service in lines.get("services", "").split() for port in _ports_of(definitions, service)]
        ports += [_EVERY_PORT] if "tcp" in lines.get("protocols", "").split() else []
        rich_rules = tuple(line for line in lines.get("rich rules", "").splitlines() if line)
        zones_.append(
            Zone(
                name,
                lines["target"],
                tuple(lines.get("interfaces", "").split()),
                tuple(lines.get("sources", "").split()),
                tuple(ports),
                rich_rules,
                tuple(filter(is_ours, rich_rules)),
            )
        )
    return tuple(zones_) if zones_ else Missing(f"firewall-cmd --list-all-zones printed no zone: {quote(text)}")


def translating(text: str, default_zone: str) -> tuple[str, ...]:
    """Return the zones in use that masquerade or forward ports."""
    return tuple(
        f"zone {name}"
        for name, lines in _blocks(text)
        if (name == default_zone or lines.get("interfaces") or lines.get("sources"))
        and (lines.get("masquerade") == "yes" or lines.get("forward-ports"))
    )


def _blocks(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each zone's lines by their key. Lines below a key that begin with a tab belong to it."""
    name, lines, key = "", dict[str, str](), ""
    for line in [*text.splitlines(), "end"]:
        if line.startswith("\t"):
            lines[key] = f"{lines.get(key, '')}\n{line.strip()}".strip()
        elif line.startswith("  "):
            key, _, value = line.strip().partition(":")
            lines[key] = value.strip()
        elif line.strip():
            if name:
                yield name, lines
            match = _HEAD.fullmatch(line.strip())
            name, lines, key = match[1] if match else line.strip(), {}, ""


def _ports_of(services: Mapping[str, str], name: str) -> Iterator[str]:
    for port, protocol in _PORT.findall(services.get(name, "")):
        yield f"{port}/{protocol}"


def version(text: str) -> tuple[int, ...]:
    """Return the version in firewalld's module `firewall.config`; empty if it has none."""
    match = _VERSION.search(text)
    return tuple(map(int, match[1].split("."))) if match else ()


def default_zone(text: str) -> str:
    """Return the default zone of firewalld.conf."""
    match = _DEFAULT_ZONE.search(text)
    return match[1] if match else "public"
