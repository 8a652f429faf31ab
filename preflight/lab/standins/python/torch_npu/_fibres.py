"""STAND-IN: who talks to whom where a fibre joins each device with its partner on the other server, and no switch.

HCCL's collectives have levels: inside a server over HCCS or PCIe (level 0), between servers among the devices in the
same place (level 1); all_to_all is done in these two stages as well, unless HCCL_ALGO says pairwise. Send and receive
go straight from device to device. [CANN user guide, "Collective Communication Algorithms"; HCCL's sources]

gloo joins every device with every other. What is for another rail therefore goes over HCCS to the sibling whose fibre
leads there: each fibre carries what it would carry, and what is cut stops who would stop.
"""

import subprocess

from torch_npu import _errors, _lab

ROUTES = "101"  # the routing table of these ways; the lab has the device look into it (network.py)


def neighbours(ranks, rank):
    """Return the ranks to which a rank's rings lead: the next device of its server, and its own place on the next
    server. Where servers do not bring the same devices there is one ring of all."""
    mine, servers = ranks[rank], {}
    for one in ranks:
        servers.setdefault(one["server"], []).append(one["device"])
    if len({frozenset(devices) for devices in servers.values()}) > 1:
        rings = [ranks]
    else:
        rings = [[one for one in ranks if one[key] == mine[key]] for key in ("server", "device")]
    after = [ring[(ring.index(mine) + 1) % len(ring)] for ring in rings]
    return [one for one in after if one is not mine]


def lay(device, ranks, rank):
    """Make the ways from a device to the other rails of the other server, by the siblings that take part."""
    mine = ranks[rank]
    if _lab.has_switch(device):
        return
    siblings = {one["device"]: one["ip"] for one in ranks if one["server"] == mine["server"]}
    routes = [
        f"route replace {one['ip']} via {siblings[one['device']]} dev hccs0 onlink src {mine['ip']} table {ROUTES}\n"
        for one in ranks
        if not _joined(mine, one) and one["device"] in siblings
    ]
    _ip(device, routes)


def forget(device):
    """Remove the ways of earlier jobs."""
    if not _lab.has_switch(device):
        _ip(device, [f"route flush table {ROUTES}\n"])


def refuse_to_cross(device, ranks, rank, peer, seconds, scale):
    """Raise EI0006 for a send or receive between devices that no fibre joins."""
    if not _lab.has_switch(device) and not _joined(ranks[rank], ranks[peer]):
        raise _errors.link_timeout(seconds, scale, ranks[rank], ranks[peer], "no fibre leads there")


def _joined(one, other):
    return one["server"] == other["server"] or one["device"] == other["device"]


def _ip(device, lines):
    with _lab.inside(device):
        subprocess.run(["ip", "-batch", "-"], input="".join(lines), text=True, check=True)
