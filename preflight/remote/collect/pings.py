"""Pings between device NICs."""

from collect.hccn import HCCN_TOOL, hccn
from collect.tools import each, required


def look_pings(request, deadline):
    """The pings of one device go one after the other."""
    tool = required(*HCCN_TOOL)
    targets = {}
    for device, address in request["pings"]:
        targets.setdefault(device, []).append(address)

    def pings(device):
        return {
            address: hccn(tool, device, ["-ping", "-g", "address", address], deadline) for address in targets[device]
        }

    return each(targets, pings, deadline)
