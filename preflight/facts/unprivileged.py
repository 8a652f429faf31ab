"""Facts that were collected without root: sections that only root can read are missing. Pure."""

from dataclasses import fields, replace

from preflight.facts.reading import Found
from preflight.facts.types import SECTIONS, Hccn, HccnDevice, HostFacts, Missing, Os, Unreachable


def without_root(facts: HostFacts, refused: Unreachable | None) -> HostFacts:
    """Return the facts that are reliable without root.

    `refused`: why sudo did not make the collector root; None if it was not refused. nft and iptables show rules to root
    only, and without them an open firewall looks like none. hccn_tool answers users that may open the device files;
    others get errors to some questions and empty values to others.
    """
    user = facts.os.user if isinstance(facts.os, Os) else ""
    if not refused and (not isinstance(facts.os, Os) or facts.os.root):
        return facts
    looker = f"looked at as {user}" if user else "looked at without root"
    sections = {name: facts.section(name) for name in SECTIONS}
    changed: dict[str, object] = {
        name: Missing(f"{value.error} ({looker}: root may be needed)")
        for name, value in sections.items()
        if isinstance(value, Missing)
    }
    changed["firewall"] = Missing(f"root is needed: nobody else is shown the firewall's rules ({looker})")
    if isinstance(facts.hccn, Hccn) and any(map(_refuses, facts.hccn.devices)):
        changed["hccn"] = Missing(f"root is needed: hccn_tool does not answer every question ({looker})")
        changed["nic"] = changed["hccn"] if facts.nic else None
    if isinstance(facts.os, Os):
        changed["os"] = replace(facts.os, refused=refused)
    return replace(facts, **changed)  # type: ignore[arg-type]  # a section's name with what it may hold


def _refuses(device: HccnDevice) -> bool:
    values = (getattr(device, field.name) for field in fields(HccnDevice))
    return any(isinstance(value, Found) and value.error for value in values)
