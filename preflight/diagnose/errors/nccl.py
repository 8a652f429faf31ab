"""Errors that NCCL logs. Data; words of NCCL's sources, its user guide and users' reports."""

from preflight.diagnose.types import Role, Sign, Weight

_MEMLOCK = "set memlock to unlimited where jobs are started, not only for logins (RDM112, ENV102)\nulimit -l"
_GID = (
    "check NCCL_IB_GID_INDEX. On every host it must point to a RoCE v2 GID with a routable address (RDM104, RDM105)\n"
    "show_gids"
)
_SHM = (
    "make /dev/shm larger (docker: --shm-size) and remove stale /dev/shm/nccl-* files (HST115, HST132)\n"
    "df -h /dev/shm\nls -l /dev/shm"
)
_SHM_FULL = "shared memory (/dev/shm) is full or too small"
_NIC = (
    "set NCCL_SOCKET_IFNAME so that it matches one NIC on every host (HST117). The value is a prefix, and =eth0 "
    "matches exactly\nip -brief address"
)
_PORTS = "open all TCP ports between the hosts (PRB114, FWL104). Also check that NCCL uses the intended NIC (HST117)"
_FABRIC = (
    "check that the fabric manager is active, enabled and of the driver's version (GPU112, GPU113, GPU114)\n"
    "systemctl status nvidia-fabricmanager\nnvidia-smi -q | grep -A2 Fabric"
)
_RAIL = (
    "measure the rail with ib_write_bw. Then check its routes, PFC and the link errors at both ends (RDM107, PRB101)"
)
_UNREACHED = "RDMA packets got no reply: the two NICs cannot reach each other, even if TCP works"
_MTU = "the two HCAs have different MTUs"
_COMPARE_MTU = "compare active_mtu and the NIC's MTU on both hosts (RDM106)\nibv_devinfo"
_PEER_CLOSED = "the peer closed the connection because its process ended"
_PEER_LOG = "read the log of the peer"
_HUNG = "torch's watchdog hung in a CUDA or NCCL call: another rank did not join, or this GPU does not respond"
_STOPPED_FIRST = "find the rank that stopped first, and check the kernel log (PRB101)\ndmesg | grep Xid"
_WARN = "set NCCL_DEBUG=WARN and run the job again"
_REMOTE = "another rank has ended, or its network failed"
_USAGE = "NCCL was called incorrectly, or CUDA is newer than the driver"
_COMPARE_CUDA = "compare the CUDA version of the driver with torch's\nnvidia-smi"
# "Call to connect failed" until NCCL 2.12, "Connect to ADDRESS failed" and "connect to ADDRESS returned" since.
_CONNECT = r"\bCall to connect\b|NCCL WARN .{0,80}\b[Cc]onnect(?: to \S{1,80})? (?:failed|returned)\b"

SIGNS = (
    Sign(
        "nccl-no-interface",
        Role.OWN,
        ("no socket interface found",),
        "NCCL_SOCKET_IFNAME matches no NIC of this host",
        _NIC,
    ),
    Sign(
        "nccl-no-interface",
        Role.OWN,
        ("neither AF_INET",),
        "NCCL_SOCKET_IFNAME matches no NIC of this host, so NCCL 2.27 has no address to connect to",
        _NIC,
    ),
    Sign(
        "nccl-duplicate-gpu",
        Role.OWN,
        ("Duplicate GPU detected",),
        "two ranks use one GPU, or cloned containers share one host ID",
        "give every rank the GPU of its local rank, and check CUDA_VISIBLE_DEVICES (HST108)",
    ),
    Sign(
        "nccl-versions",
        Role.LINK,
        ("Mismatched NCCL version",),
        "ranks have different NCCL releases",
        "install the same torch release on all hosts (VER113, VER103)",
    ),
    Sign(
        "nccl-memlock",
        Role.OWN,
        ("ibv_reg_mr", "Cannot allocate memory"),
        "RDMA could not lock memory, because memlock is limited where the job starts",
        _MEMLOCK,
    ),
    Sign(
        "nccl-memlock",
        Role.OWN,
        ("ibv_create_", "failed"),
        "RDMA could not create a queue: memlock is limited where the job starts, or the HCA has no queues left",
        _MEMLOCK,
    ),
    Sign(
        "nccl-peermem",
        Role.OWN,
        ("ailed to register memory", "Bad address"),
        "the HCA cannot access GPU memory: nvidia_peermem is not loaded, and DMA-BUF is not available",
        "load nvidia_peermem (RDM109)\nmodprobe nvidia_peermem",
    ),
    Sign(
        "nccl-gid",
        Role.LINK,
        ("ibv_modify_qp failed", "timed out"),
        "the GID of one end is unreachable, because it is link-local or in another network",
        _GID,
    ),
    Sign(
        "nccl-gid",
        Role.OWN,
        ("ibv_modify_qp failed", "Invalid argument"),
        "the GID index points to a GID of the wrong type",
        _GID,
    ),
    Sign("nccl-gid", Role.OWN, ("ncclIbRoceGetVersionNum",), "the HCA has no GID at the requested index", _GID),
    Sign(
        "nccl-mtu",
        Role.LINK,
        ("IBV_WC_LOC_LEN_ERR",),
        _MTU,
        _COMPARE_MTU,
    ),
    Sign(
        "nccl-mtu",
        Role.LINK,
        ("Got async event", "local access violation"),
        _MTU,
        _COMPARE_MTU,
    ),
    Sign(
        "nccl-rdma",
        Role.LINK,
        ("Got completion", "12,"),
        _UNREACHED,
        _RAIL,
        pattern=r"(?:error |status=)12\b",
    ),
    Sign(
        "nccl-rdma",
        Role.LINK,
        ("Got completion", "status=12"),
        _UNREACHED,
        _RAIL,
    ),
    Sign(
        "nccl-rdma-flushed",
        Role.WAIT,
        ("Got completion",),
        "RDMA transfers were dropped after an earlier error, or because the peer ended (status 5)",
        "find the first error, on the peer or before this line (PRB101)",
        pattern=r"(?:error |status=)5\b",
    ),
    Sign(
        "nccl-rdma",
        Role.LINK,
        ("Got completion",),
        "the peer was not ready to receive in time (status 13)",
        _RAIL,
        pattern=r"(?:error |status=)13\b",
    ),
    Sign(
        "nccl-rdma",
        Role.LINK,
        ("Got completion",),
        "an RDMA access was rejected (status {status}): the peer has ended, or its memory is not registered",
        _RAIL,
        pattern=r"(?:error |status=)(?P<status>4|9|10|11)\b",
    ),
    Sign("nccl-rdma", Role.LINK, ("Got completion",), "an RDMA transfer failed", _RAIL),
    Sign(
        "nccl-port-error",
        Role.OWN,
        ("Got async event", "port error"),
        "the HCA's link went down",
        "check the cable and the optical module (RDM108)\n"
        "ibstat\ngrep . /sys/class/infiniband/*/ports/*/counters/link_downed",
    ),
    Sign(
        "nccl-hca-fatal",
        Role.OWN,
        ("Got async event", "catastrophic"),
        "the HCA's firmware stopped",
        "check the kernel log, then reset the HCA or restart the host\ndmesg | grep mlx5",
    ),
    Sign("nccl-shm", Role.OWN, ("posix_fallocate failed",), _SHM_FULL, _SHM),
    Sign(
        "nccl-shm",
        Role.OWN,
        ("creating shared memory segment",),
        "shared memory (/dev/shm) is full or not writable",
        _SHM,
    ),
    Sign("nccl-shm", Role.OWN, ("failed to extend /dev/shm",), _SHM_FULL, _SHM),
    Sign(
        "nccl-shm",
        Role.OWN,
        ("shm_open failed",),
        "the jobs' user has no access to shared memory (/dev/shm)",
        "correct the permissions of /dev/shm (HST131)\nchmod 1777 /dev/shm",
    ),
    Sign(
        "nccl-removeipc",
        Role.OWN,
        ("unlink shared memory", "No such file"),
        "systemd removed the job's shared memory when a session of its user ended",
        "set RemoveIPC=no in /etc/systemd/logind.conf (HST130)",
    ),
    Sign("nccl-nvls", Role.OWN, ("Failed to bind NVLink SHARP",), "the fabric manager is only partly working", _FABRIC),
    Sign(
        "nccl-nvls",
        Role.OWN,
        ("nvls.cc", "NCCL WARN Cuda failure"),
        "the fabric manager was not restarted after a driver update",
        _FABRIC,
    ),
    Sign(
        "nccl-connect",
        Role.WAIT,
        ("Connection refused",),
        "the peer does not listen on that port: its process has ended, or it announced a loopback address",
        _PORTS,
        pattern=_CONNECT,
    ),
    Sign(
        "nccl-connect",
        Role.WAIT,
        ("imed out",),
        "a connection between two hosts timed out: a firewall drops it, or the NIC is unreachable",
        _PORTS,
        pattern=_CONNECT,
    ),
    Sign(
        "nccl-connect",
        Role.LINK,
        ("No route to host",),
        "a host is unreachable at the address that it announced",
        _PORTS,
        pattern=_CONNECT,
    ),
    Sign(
        "nccl-connect",
        Role.WAIT,
        ("caused connection abort", "NCCL WARN"),
        "NCCL stopped connecting after another error",
        "find the first error",
    ),
    Sign(
        "nccl-no-interface",
        Role.OWN,
        ("Socket creation failed", "Address family not supported"),
        "NCCL found no usable interface: none is up (as in a container without network), or IPv6 is off",
        "set NCCL_SOCKET_IFNAME to a NIC that is up, or set NCCL_SOCKET_FAMILY=AF_INET (HST117, HST129)\n"
        "ip -brief address",
    ),
    Sign(
        "nccl-lost",
        Role.WAIT,
        ("NCCL WARN", "Connection closed by remote peer"),
        _PEER_CLOSED,
        _PEER_LOG,
    ),
    Sign(
        "nccl-lost",
        Role.WAIT,
        ("NCCL WARN", "Connection reset by peer"),
        _PEER_CLOSED,
        _PEER_LOG,
    ),
    Sign(
        "nccl-lost",
        Role.WAIT,
        ("NCCL WARN", "Broken pipe"),
        _PEER_CLOSED,
        _PEER_LOG,
    ),
    Sign(
        "nccl-lost",
        Role.WAIT,
        ("NCCL WARN", "Proxy Call to rank"),
        _PEER_CLOSED,
        _PEER_LOG,
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "nccl-lost",
        Role.WAIT,
        ("NCCL WARN", "Failed to execute operation"),
        _PEER_CLOSED,
        _PEER_LOG,
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "nccl-watchdog",
        Role.WAIT,
        ("Watchdog caught collective operation timeout",),
        "a collective timed out: another rank did not join it, or a link passes no data",
        "find the rank that did not join (PRB101)",
    ),
    Sign(
        "nccl-stuck",
        Role.WAIT,
        ("watchdog got stuck for",),
        _HUNG,
        _STOPPED_FIRST,
    ),
    Sign(
        "nccl-stuck",
        Role.WAIT,
        ("Heartbeat monitor timed out",),
        _HUNG,
        _STOPPED_FIRST,
    ),
    Sign(
        "nccl-aborted",
        Role.WAIT,
        ("NCCL communicator was aborted",),
        "the communicator was aborted after another error",
        "find the first error",
    ),
    Sign(
        "nccl-unique-id",
        Role.WAIT,
        ("ncclUniqueId from [0]",),
        "rank 0 did not provide the communicator's ID: it died, or hangs on its GPU",
        "read rank 0's log, and check its GPU (PRB101)",
    ),
    Sign(
        "nccl-cuda",
        Role.OWN,
        ("unhandled cuda error",),
        "a CUDA call of NCCL failed. NCCL's WARN line has the details",
        _WARN,
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "nccl-internal",
        Role.OWN,
        ("internal error - please report this issue",),
        "NCCL had an internal error. Its WARN line has the details",
        _WARN,
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "nccl-system",
        Role.WAIT,
        ("unhandled system error",),
        "a system call of NCCL failed. NCCL's WARN line has the details",
        _WARN,
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "nccl-remote",
        Role.WAIT,
        ("ncclRemoteError",),
        _REMOTE,
        "read the log of the other rank",
    ),
    Sign(
        "nccl-remote",
        Role.WAIT,
        ("remote process exited or there was a network error",),
        _REMOTE,
        "read the log of the other rank",
    ),
    Sign(
        "nccl-usage",
        Role.UNKNOWN,
        ("ncclInvalidUsage",),
        _USAGE,
        _COMPARE_CUDA,
    ),
    Sign(
        "nccl-usage",
        Role.UNKNOWN,
        ("NCCL Error 5: invalid usage",),
        _USAGE,
        _COMPARE_CUDA,
    ),
    Sign(
        "nccl-socket-only",
        Role.HINT,
        ("NCCL INFO", "NET/IB : No device found"),
        "NCCL found no RDMA device and uses sockets",
        "check the RDMA devices. A container also needs /dev/infiniband (ENV116, PRB119)\n"
        "ls /sys/class/infiniband /dev/infiniband",
    ),
    Sign(
        "nccl-socket-only",
        Role.HINT,
        ("ailed to open libibverbs",),
        "libibverbs is not installed, so NCCL uses sockets",
        "install libibverbs where jobs run (PRB119)",
    ),
)
