"""Facts that were collected without root: sections that only root can read are missing. Pure."""

from dataclasses import fields, replace

from preflight.facts.reading import Found
from preflight.facts.types import SECTIONS, Hccn, HccnDevice, HostFacts, Missing, Os, Unreachable


def without_root(facts: HostFacts, refused: Unreachable | None) -> HostFacts:
    """Return the facts that are reliable without root.

    `refused`: why sudo did not make the collector root; None if it was not refused. nft and iptables show rules to root
    only, so without root there seems to be no firewall. hccn_tool answers users that may open the device files. For
    other users, some queries fail, and some have empty values.
    """
    system = facts.os if isinstance(facts.os, Os) else None
    if not refused and (system is None or system.root):
        return facts
    viewer = f"checked as {system.user}" if system and system.user else "checked without root"
    changes = _hidden_sections(facts, viewer)
    if system:
        changes["os"] = replace(system, refused=refused)
    return replace(facts, **changes)  # type: ignore[arg-type]  # a section's name with its value


def _hidden_sections(facts: HostFacts, viewer: str) -> dict[str, object]:
    """Return the sections that root may be needed for, by name."""
    sections: dict[str, object] = {
        name: Missing(f"{section.error} ({viewer}: root may be needed)")
        for name in SECTIONS
        if isinstance(section := facts.section(name), Missing)
    }
    sections["firewall"] = Missing(f"root is needed: only root can read the firewall rules ({viewer})")
    if isinstance(facts.hccn, Hccn) and any(map(_has_error, facts.hccn.devices)):
        sections["hccn"] = Missing(f"root is needed: hccn_tool does not answer every query ({viewer})")
        sections["nic"] = sections["hccn"] if facts.nic else None
    return sections


def _has_error(device: HccnDevice) -> bool:
    values = (getattr(device, field.name) for field in fields(HccnDevice))
    return any(isinstance(value, Found) and value.error for value in values)
