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
    user = facts.os.user if isinstance(facts.os, Os) else ""
    if not refused and (not isinstance(facts.os, Os) or facts.os.root):
        return facts
    viewer = f"looked at as {user}" if user else "looked at without root"
    sections = {name: facts.section(name) for name in SECTIONS}
    changes: dict[str, object] = {
        name: Missing(f"{value.error} ({viewer}: root may be needed)")
        for name, value in sections.items()
        if isinstance(value, Missing)
    }
    changes["firewall"] = Missing(f"root is needed: nobody else is shown the firewall's rules ({viewer})")
    if isinstance(facts.hccn, Hccn) and any(map(_refuses, facts.hccn.devices)):
        changes["hccn"] = Missing(f"root is needed: hccn_tool does not answer every question ({viewer})")
        changes["nic"] = changes["hccn"] if facts.nic else None
    if isinstance(facts.os, Os):
        changes["os"] = replace(facts.os, refused=refused)
    return replace(facts, **changes)  # type: ignore[arg-type]  # a section's name with its value


def _refuses(device: HccnDevice) -> bool:
    values = (getattr(device, field.name) for field in fields(HccnDevice))
    return any(isinstance(value, Found) and value.error for value in values)
