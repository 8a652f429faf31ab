"""Usual causes of a rank that hangs between two stages of the probe, by its last completed stage. Pure.

gloo and NCCL listen on ephemeral ports of an interface that they choose (NCCL user guide, networking troubleshooting).
HCCL listens on ports from 60000 of the host NIC, and on port 16666 of the device's NIC (HCCL user guide).
"""

from preflight.facts.error_meanings import Meaning

_FABRIC = "look at link, MTU, priorities and loss along that rail (NIC101, NIC107, NIC109, PNG101)"

_ANY = {
    "none": Meaning("", "look at the host: was it reached, did python start?"),
    "spawned": Meaning(
        "Python does not start, or the setup line hangs or fails",
        "run the inventory's python by hand on that host, after its setup line",
    ),
    "python": Meaning(
        "importing torch fails or hangs: its environment, or a file system that does not answer",
        "import torch by hand in the job's environment on that host",
    ),
    "torch": Meaning(
        "the backend's library does not load, or its driver does not answer",
        "import the backend (torch_npu) by hand in the job's environment on that host",
    ),
    "backend": Meaning(
        "the device does not open: held by another process, lost, or not permitted",
        "open the device by hand: driver, permissions of its files in /dev, another process on it",
    ),
    "device": Meaning(
        "TCP from there to the place where ranks meet is dropped, or nobody listens there",
        "reach that port by hand (nc -vz): route, firewall (PRB114, FWL101), port in use (PRT103)",
    ),
    "store": Meaning(
        "the process stopped after it had reached the place where ranks meet", "look at that process and its host"
    ),
    "communicator": Meaning(
        "the process stopped between two operations: its host, or the device's runtime", "look at that process"
    ),
    "values": Meaning("the process does not leave the communicator", "end it, and see that its device is free"),
    "closed": Meaning("the process does not end: a driver holds it", "dmesg on that host; see that its device is free"),
}

_OF = {
    "gloo": {
        "peers": Meaning(
            "gloo connects all ranks through ephemeral ports of one host NIC: a firewall between the hosts, or the "
            "wrong interface",
            "let the hosts reach each other on all TCP ports (PRB114; net.ipv4.ip_local_port_range); "
            "GLOO_SOCKET_IFNAME names the NIC",
        ),
        "iteration": Meaning(
            "the TCP connections stand, and carry nothing: MTU, loss, or a process that stands still",
            "look at the host NIC of that host: MTU, loss, errors",
        ),
    },
    "nccl": {
        "torch": Meaning(
            "CUDA does not come up: driver, device, or a torch built without it", "nvidia-smi and its driver"
        ),
        "backend": Meaning("the GPU does not open: lost, or held", "nvidia-smi; dmesg | grep -i xid"),
        "peers": Meaning(
            "NCCL's bootstrap goes through ephemeral ports of the interface that it chose, its data over RDMA: wrong "
            "interface, firewall, GID or HCA",
            "NCCL_SOCKET_IFNAME (a prefix: =eth0 is exact), NCCL_IB_HCA, NCCL_IB_GID_INDEX; let the hosts reach each "
            "other on all TCP ports (PRB114)",
        ),
        "iteration": Meaning(
            "NCCL is connected and carries nothing: RDMA path (GID, priorities, MTU), or a GPU that stands still",
            "look at HCA, GID and switch priorities of that rail; NCCL_IB_DISABLE=1 tells RDMA from the rest",
        ),
    },
    "hccl": {
        "backend": Meaning(
            "the NPU does not open: held by another process, lost, or not permitted",
            "npu-smi info; permissions of /dev/davinci* (NPU109, NPU118)",
        ),
        "peers": Meaning(
            "HCCL joins hosts on 60000 and up of the host NIC, then devices on 16666 of their own (EI0015, EI0006): "
            "firewall, device address, link, or TLS switch",
            "look at the device's address, link and TLS switch (NPU101, NPU107, NPU108) and the firewall (FWL101)",
        ),
        "iteration": Meaning(
            "HCCL is connected and carries nothing (EI0002, EI0013): link, MTU or loss, or a rank that stands still",
            _FABRIC,
        ),
    },
}


_STATES = {  # of a process that was inspected after the timeout, as in /proc/PID/stat
    "T": Meaning(
        "something stopped that process: a debugger, job control, or a signal", "look at that host, not at the network"
    ),
    "D": Meaning(
        "that process waits inside the kernel: a driver, or a file system",
        "dmesg on that host; is its device healthy, does its file system answer?",
    ),
}


def usual(stage: str, backend: str, state: str = "") -> Meaning:
    """Return the usual cause and remedy, both empty if none is known. `stage`: the last completed one."""
    if state in _STATES:
        return _STATES[state]
    backend_causes = _OF.get(backend, {})
    stage_name = "iteration" if stage == "warm-up" else stage
    return backend_causes.get(stage_name) or _ANY.get(stage_name) or Meaning("", "")
