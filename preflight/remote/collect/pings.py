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
    pings_by_device = {}
    for device, arguments in request["pings"]:
        pings_by_device.setdefault(device, []).append(arguments)
    results = {device: [] for device in pings_by_device}

    def pings(device):
        for arguments in pings_by_device[device]:
            if len(results[device]) > 1 and all("trouble" in answer for answer in results[device][-2:]):
                trouble = "not tried, because the previous pings did not finish"
                results[device].append({"out": "", "err": "", "code": -1, "trouble": trouble})
                continue
            limit = min(deadline, time.monotonic() + request["ping_seconds"])
            results[device].append(hccn(tool, device, arguments, limit))

    each(pings_by_device, pings, deadline)
    return {str(device): list(answers) for device, answers in results.items()}
