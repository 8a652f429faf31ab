"""What NCCL says. Data; words of NCCL's sources, its user guide and users' reports."""

from preflight.diagnose.types import Role, Sign

_MEMLOCK = "raise memlock to unlimited where jobs are started, not only in a login (RDM112, ENV102)"
_GID = (
    "look at NCCL_IB_GID_INDEX: show_gids must show RoCE v2 with a routable address at it on every host "
    "(RDM104, RDM105)"
)
_SHM = "give /dev/shm room (docker: --shm-size), remove stale /dev/shm/nccl-* (HST115, HST132)"
_NIC = "NCCL_SOCKET_IFNAME is a prefix, =eth0 is exact; it has to match one NIC on every host (HST117)"
_PORTS = "let the hosts reach each other on all TCP ports (PRB114, FWL104); is the NIC the one you mean? (HST117)"
_FABRIC = (
    "systemctl status nvidia-fabricmanager: active, enabled, of the driver's version; nvidia-smi -q | grep -A2 Fabric "
    "(GPU112, GPU113, GPU114)"
)
_RAIL = "ib_write_bw along that rail; look at routes between rails, PFC and link errors of both ends (RDM107, PRB101)"
# "Call to connect failed" until NCCL 2.12, "Connect to ADDRESS failed" and "connect to ADDRESS returned" since.
_CONNECT = r"\bCall to connect\b|NCCL WARN .{0,80}\b[Cc]onnect(?: to \S{1,80})? (?:failed|returned)\b"

SIGNS = (
    Sign("nccl-no-interface", Role.OWN, ("no socket interface found",),
         "NCCL_SOCKET_IFNAME matches no NIC of this host", _NIC),
    Sign("nccl-no-interface", Role.OWN, ("neither AF_INET",),
         "NCCL_SOCKET_IFNAME matches no NIC of this host (NCCL 2.27 then connects to nowhere)", _NIC),
    Sign("nccl-duplicate-gpu", Role.OWN, ("Duplicate GPU detected",),
         "two ranks use one GPU, or cloned containers have one host id",
         "give every rank the GPU of its local rank; look at CUDA_VISIBLE_DEVICES (HST108)"),
    Sign("nccl-versions", Role.LINK, ("Mismatched NCCL version",),
         "ranks have different releases of NCCL", "install one torch everywhere (VER113, VER103)"),
    Sign("nccl-memlock", Role.OWN, ("ibv_reg_mr", "Cannot allocate memory"),
         "RDMA may not lock memory: memlock is limited where the job starts", _MEMLOCK),
    Sign("nccl-memlock", Role.OWN, ("ibv_create_", "failed"),
         "RDMA got no queue: memlock is limited where the job starts, or the HCA is out of them", _MEMLOCK),
    Sign("nccl-peermem", Role.OWN, ("ailed to register memory", "Bad address"),
         "the HCA cannot reach GPU memory: nvidia_peermem is not loaded, and there is no DMA-BUF",
         "modprobe nvidia_peermem on that host (RDM109)"),
    Sign("nccl-gid", Role.LINK, ("ibv_modify_qp failed", "timed out"),
         "the GID of one end is not reachable: link-local, or of another network", _GID),
    Sign("nccl-gid", Role.OWN, ("ibv_modify_qp failed", "Invalid argument"),
         "the GID index leads to a GID of the wrong kind", _GID),
    Sign("nccl-gid", Role.OWN, ("ncclIbRoceGetVersionNum",), "there is no GID at the index that is asked for", _GID),
    Sign("nccl-mtu", Role.LINK, ("IBV_WC_LOC_LEN_ERR",), "the MTU of the two HCAs differs",
         "compare active_mtu (ibv_devinfo) and the NIC's MTU on both hosts (RDM106)"),
    Sign("nccl-mtu", Role.LINK, ("Got async event", "local access violation"), "the MTU of the two HCAs differs",
         "compare active_mtu (ibv_devinfo) and the NIC's MTU on both hosts (RDM106)"),
    Sign("nccl-rdma", Role.LINK, ("Got completion", "12,"),
         "RDMA packets got no answer: the two NICs do not reach each other, though TCP may", _RAIL,
         pattern=r"(?:error |status=)12\b"),
    Sign("nccl-rdma", Role.LINK, ("Got completion", "status=12"),
         "RDMA packets got no answer: the two NICs do not reach each other, though TCP may", _RAIL),
    Sign("nccl-rdma", Role.LINK, ("Got completion",), "an RDMA transfer failed", _RAIL),
    Sign("nccl-port-error", Role.OWN, ("Got async event", "port error"),
         "the HCA's link went down",
         "ibstat; link_downed in /sys/class/infiniband/*/ports/*/counters: cable, module (RDM108)"),
    Sign("nccl-hca-fatal", Role.OWN, ("Got async event", "catastrophic"),
         "the HCA's firmware stopped", "dmesg | grep mlx5 on that host; reset or restart it"),
    Sign("nccl-shm", Role.OWN, ("posix_fallocate failed",), "shared memory (/dev/shm) is full, or too small", _SHM),
    Sign("nccl-shm", Role.OWN, ("creating shared memory segment",), "shared memory (/dev/shm) is full, or shut", _SHM),
    Sign("nccl-shm", Role.OWN, ("failed to extend /dev/shm",), "shared memory (/dev/shm) is full, or too small", _SHM),
    Sign("nccl-shm", Role.OWN, ("shm_open failed",), "shared memory (/dev/shm) is not open to the jobs' user",
         "chmod 1777 /dev/shm (HST131)"),
    Sign("nccl-removeipc", Role.OWN, ("unlink shared memory", "No such file"),
         "systemd removed the job's shared memory when a session of its user ended",
         "RemoveIPC=no in /etc/systemd/logind.conf (HST130)"),
    Sign("nccl-nvls", Role.OWN, ("Failed to bind NVLink SHARP",), "the fabric manager half works", _FABRIC),
    Sign("nccl-nvls", Role.OWN, ("nvls.cc", "NCCL WARN Cuda failure"),
         "the fabric manager was not restarted after a change of driver", _FABRIC),
    Sign("nccl-connect", Role.WAIT, ("Connection refused",),
         "nobody listens where NCCL was told to connect: the other rank has gone, or told of lo", _PORTS,
         pattern=_CONNECT),
    Sign("nccl-connect", Role.WAIT, ("imed out",),
         "a connection between two hosts is dropped on the way: a firewall, or a NIC that others do not reach", _PORTS,
         pattern=_CONNECT),
    Sign("nccl-connect", Role.WAIT, ("No route to host",),
         "a host is not reached at the address that it told", _PORTS, pattern=_CONNECT),
    Sign("nccl-connect", Role.WAIT, ("caused connection abort", "NCCL WARN"),
         "NCCL stopped connecting, for something else had failed", "look at the first error"),
    Sign("nccl-family", Role.OWN, ("Socket creation failed", "Address family not supported"),
         "IPv6 is on on some hosts only", "NCCL_SOCKET_FAMILY=AF_INET, or IPv6 alike everywhere (HST129)"),
    Sign("nccl-lost", Role.WAIT, ("NCCL WARN", "Connection closed by remote peer"),
         "another rank has gone", "look at that rank's own words"),
    Sign("nccl-watchdog", Role.WAIT, ("Watchdog caught collective operation timeout",),
         "a collective did not end in time: another rank did not come to it, or a way carries nothing",
         "look at the rank that did not come (PRB101)"),
    Sign("nccl-aborted", Role.WAIT, ("NCCL communicator was aborted",),
         "the communicator was taken down after another error", "look at the first error"),
    Sign("nccl-unique-id", Role.WAIT, ("ncclUniqueId from [0]",),
         "rank 0 did not bring the id of the communicator: it died, or hangs at its GPU",
         "look at rank 0's own words and its GPU (PRB101)"),
    Sign("nccl-system", Role.WAIT, ("unhandled system error",),
         "NCCL failed at a call of the system; its WARN line says which", "NCCL_DEBUG=WARN, and look again"),
    Sign("nccl-remote", Role.WAIT, ("ncclRemoteError",),
         "another rank has gone, or its network", "look at that rank's own words"),
    Sign("nccl-usage", Role.UNKNOWN, ("ncclInvalidUsage",),
         "NCCL was called wrongly, or CUDA is newer than the driver", "compare nvidia-smi's CUDA with torch's"),
    Sign("nccl-usage", Role.UNKNOWN, ("NCCL Error 5: invalid usage",),
         "NCCL was called wrongly, or CUDA is newer than the driver", "compare nvidia-smi's CUDA with torch's"),
    Sign("nccl-socket-only", Role.HINT, ("NCCL INFO", "NET/IB : No device found"),
         "NCCL found no RDMA device, and takes sockets",
         "ls /sys/class/infiniband; is /dev/infiniband in the container? (ENV116, PRB119)"),
    Sign("nccl-socket-only", Role.HINT, ("ailed to open libibverbs",),
         "libibverbs is not installed, so NCCL takes sockets", "install libibverbs where jobs run (PRB119)"),
)  # fmt: skip
