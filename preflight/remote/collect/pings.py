"""Pings between device NICs."""

import time

from collect.hccn import HCCN_TOOL, hccn
from collect.tools import each, required


def look_pings(request, deadline):
    """{device: [answer, …]}: a device's pings go one after the other, and this is what came of them by the deadline.

    A device whose tool comes to no end twice in a row is not asked again: a mesh would wait for it a hundred times.
    """
    tool = required(*HCCN_TOOL)
    wanted = {}
    for device, arguments in request["pings"]:
        wanted.setdefault(device, []).append(arguments)
    found = {device: [] for device in wanted}

    def pings(device):
        for arguments in wanted[device]:
            if len(found[device]) > 1 and all("trouble" in answer for answer in found[device][-2:]):
                trouble = "not tried, since the pings before it came to no end"
                found[device].append({"out": "", "err": "", "code": -1, "trouble": trouble})
                continue
            limit = min(deadline, time.monotonic() + request["ping_seconds"])
            found[device].append(hccn(tool, device, arguments, limit))

    each(wanted, pings, deadline)
    return {str(device): list(answers) for device, answers in found.items()}
