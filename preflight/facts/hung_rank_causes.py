"""Usual causes of a rank that hangs between two stages of the probe, by its last completed stage. Pure.

gloo and NCCL listen on ephemeral ports of an interface that they choose (NCCL user guide, networking troubleshooting).
HCCL listens on ports from 60000 of the host NIC, and on port 16666 of the device's NIC (HCCL user guide).
"""

from preflight.facts.error_meanings import Meaning

_FABRIC = "check the links, the MTU, the priorities and packet loss along the rail (NIC101, NIC107, NIC109, PNG101)"
_KERNEL_LOG = "dmesg -T"

_ANY = {
    "none": Meaning("", "check that the host is reachable and that Python starts on it", ("python3 -I -c pass",)),
    "spawned": Meaning(
        "Python does not start, or the setup line hangs or fails",
        "run the setup line and the Python of [probe] in the inventory manually on the host",
    ),
    "python": Meaning(
        "torch cannot be imported, because the environment is broken or a file system does not respond",
        "import torch manually in the job environment on the host",
    ),
    "torch": Meaning(
        "the backend's library does not load, or its driver does not respond",
        "import the backend (torch_npu) manually in the job environment on the host",
    ),
    "backend": Meaning(
        "the device cannot be opened, because another process holds it, it has been lost, or access is denied",
        "check the driver, the permissions of the device files in /dev, and other processes on the device",
    ),
    "device": Meaning(
        "TCP connections from the host to the rendezvous address are dropped, or no process listens on it",
        "test the connection, then check the route, the firewall (PRB114, FWL101) and the port (PRT103)",
        ("nc -vz -w 2 {rendezvous}",),
    ),
    "store": Meaning(
        "the process stopped after it had connected to the rendezvous store", "inspect the process and its host"
    ),
    "communicator": Meaning(
        "the process stopped between two operations, because of its host or the device's runtime", "inspect the process"
    ),
    "values": Meaning(
        "the process hangs while it closes the communicator", "end the process, then check that its device is free"
    ),
    "closed": Meaning(
        "the process does not exit, because it is blocked in a driver",
        "read the kernel log, then check that the device is free",
        (_KERNEL_LOG,),
    ),
}

_OF = {
    "gloo": {
        "peers": Meaning(
            "a firewall between the hosts, or the wrong interface (gloo uses ephemeral ports of one host NIC)",
            "open the ephemeral TCP ports (net.ipv4.ip_local_port_range) between the hosts (PRB114), or correct "
            "GLOO_SOCKET_IFNAME",
        ),
        "iteration": Meaning(
            "the TCP connections are open but carry no data: wrong MTU, packet loss, or a hung process",
            "compare the host NIC's mtu with the other hosts. Then run the command twice: the numbers under errors and "
            "dropped must not grow",
            ("ip -s link",),
        ),
    },
    "nccl": {
        "torch": Meaning(
            "CUDA does not start: the driver, the device, or a torch that was built without CUDA",
            "check the driver",
            ("nvidia-smi",),
        ),
        "backend": Meaning(
            "the GPU cannot be opened, because it has been lost or another process holds it",
            "check the GPU and the Xid errors in the kernel log",
            ("nvidia-smi", f"{_KERNEL_LOG} | grep -i xid"),
        ),
        "peers": Meaning(
            "a wrong interface, firewall rule, GID or HCA. NCCL connects over ephemeral TCP ports, then sends over "
            "RDMA",
            "check NCCL_SOCKET_IFNAME (=eth0 is an exact name), NCCL_IB_HCA and NCCL_IB_GID_INDEX. Then open all "
            "TCP ports between the hosts (PRB114)",
        ),
        "iteration": Meaning(
            "NCCL is connected but moves no data: the RDMA path (GID, priorities, MTU), or a hung GPU",
            "check the HCA, the GID and the switch priorities of the rail, or set NCCL_IB_DISABLE=1 to rule out RDMA",
        ),
    },
    "hccl": {
        "backend": Meaning(
            "the NPU cannot be opened, because another process holds it, it has been lost, or access is denied",
            "check the NPU and the permissions of its device files (NPU109, NPU118)",
            ("npu-smi info", "ls -l /dev/davinci*"),
        ),
        "peers": Meaning(
            "a firewall, or the device's address, link or TLS switch. HCCL uses host ports from 60000 (EI0015), then "
            "device port 16666 (EI0006)",
            "check the device's link, address and TLS switch (NPU107, NPU101, NPU108), then the firewall (FWL101)",
            ("hccn_tool -i {device} -link -g", "hccn_tool -i {device} -ip -g", "hccn_tool -i {device} -tls -g"),
        ),
        "iteration": Meaning(
            "HCCL is connected but moves no data (EI0002, EI0013): a bad link, a wrong MTU, packet loss, or a hung "
            "rank",
            _FABRIC,
            ("hccn_tool -i {device} -stat -g",),
        ),
    },
}


# A rank that hangs over gloo, while other devices on its host pass over the same NIC.
ONE_PROCESS = Meaning(
    "a hung process or device, as other devices on the host pass over the same NIC",
    "search the kernel log for errors of this device or its process",
    (_KERNEL_LOG,),
)

_STATES = {  # of a process that was inspected after the timeout, as in /proc/PID/stat
    "T": Meaning(
        "a debugger, job control or a signal stopped the process",
        "find the program that stopped the process, such as gdb, py-spy or a shell, in the host's process list",
        ("ps -eo pid,ppid,stat,user,args",),
    ),
    "D": Meaning(
        "the process waits in the kernel for a driver or a file system",
        "read the kernel log, then check the device's health and the file system",
        (_KERNEL_LOG,),
    ),
}


def usual(stage: str, backend: str, state: str = "") -> Meaning:
    """Return the usual cause and remedy, both empty if none is known. `stage`: the last completed one."""
    if state in _STATES:
        return _STATES[state]
    backend_causes = _OF.get(backend, {})
    stage_name = "iteration" if stage == "warm-up" else stage
    return backend_causes.get(stage_name) or _ANY.get(stage_name) or Meaning("", "")
