"""Pings between device NICs."""

import time

from collect.hccn import HCCN_TOOL, hccn
from collect.tools import each, required


def look_pings(request, deadline):
    """Return {device: [answer, …]}: a device's pings go one after the other, and these are their results by the
    deadline.

    A device with two unfinished calls of the tool in a row is not asked again: a mesh would wait for it a hundred
    times.
    """
    tool = required(*HCCN_TOOL)
    wanted = {}
    for device, arguments in request["pings"]:
        wanted.setdefault(device, []).append(arguments)
    results = {device: [] for device in wanted}

    def pings(device):
        for arguments in wanted[device]:
            if len(results[device]) > 1 and all("trouble" in answer for answer in results[device][-2:]):
                trouble = "not tried, since the pings before it came to no end"
                results[device].append({"out": "", "err": "", "code": -1, "trouble": trouble})
                continue
            limit = min(deadline, time.monotonic() + request["ping_seconds"])
            results[device].append(hccn(tool, device, arguments, limit))

    each(wanted, pings, deadline)
    return {str(device): list(answers) for device, answers in results.items()}
