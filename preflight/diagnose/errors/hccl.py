"""Errors that HCCL, HCCP, the runtime and ROCE write into plogs and onto the screen, by HCCL's codes. Data.

The words are those of the HCCL user guide's fault pages and of the vendor's list of fault keywords. The meaning of a
code, and the next step, are in `facts.error_catalogue`.
"""

from dataclasses import replace

from preflight.diagnose.types import Role, Sign
from preflight.facts.error_meanings import meaning

WAITS = ("EI0002", "EI0006", "EI0015")
LINKS = ("EI0005", "EI0008", "EI0009", "EI0010", "EI0012", "EI0013", "EI0016", "EI0018")
# Numbers of HcclResult that report only that others did not come, or that a connection failed.
WAITING_NUMBERS = ("9", "11", "13", "21")
LINK_NUMBERS = ("12", "14", "19")


def role_of(code: str) -> Role:
    """Return the role of HCCL's code (EI0006) or number (9)."""
    if code in WAITS or code in WAITING_NUMBERS:
        return Role.WAIT
    return Role.LINK if code in LINKS or code in LINK_NUMBERS else Role.OWN


def of_code(code: str) -> Sign | None:
    """Return the sign of a code, without words; None if the code is unknown."""
    entry = meaning(code)
    return Sign(code, role_of(code), (), entry.cause, entry.step) if entry else None


def _code(code: str, *words: str) -> Sign:
    sign = of_code(code)
    if sign is None:
        raise LookupError(code)
    return replace(sign, words=words)


# Words of HCCL from 2021 on, one pattern for all.
_SOCKETS = (
    r"\b(?:get|wait) (?:\w{1,10} )?sockets? (?:establish )?time ?out|Wait timeout for sockets|get rasocket error"
    r"|SocketEstab\]not established"
)
_PORT = r"ip\[(?P<ip>[\w.:%]{1,64})\] and (?:specific )?port\[(?P<port>\d{1,6})\]"


_HELD = {  # HCCL's code: the usual holder of the port
    "EI0019": "Another job or a leftover process on this host holds the port",
    "EI0020": "Usually two processes use one device, or a leftover process holds it. Otherwise the NIC is not usable",
    "EJ0003": "Another process holds the port",
}


def _listening(code: str, nic_type: int, nic: str) -> Sign:
    """Return the sign of a failed listen. `nic_type` is HCCL's: 0 a device's virtual NIC, 1 its NIC, 2 the host's."""
    cause = f"HCCL could not listen on {{ip}} port {{port}} ({nic}). {_HELD[code]}"
    return replace(_code(code, f"socket type[{nic_type}]", "listen on ip"), cause=cause, pattern=_PORT)


def _bound(code: str, *words: str) -> Sign:
    """Return the sign of a failed listen, as HCCL writes it onto the screen."""
    cause = f"HCCL could not listen on {{ip}} port {{port}}. {_HELD[code]}"
    pattern = r"IP address (?P<ip>[\w.:]{1,64}) and port (?P<port>\d{1,6}) have already been bound"
    return replace(_code(code, *words), cause=cause, pattern=pattern)


SIGNS = (
    Sign("HCCL", Role.NOISE, ("call trace: ",)),
    _code("EI0001", "[ERROR]", "[EnvConfig]"),
    _code("EI0001", "HCCL_", "] is invalid. except"),
    _code("EI0001", "get host ip fail by socket Ifname"),
    _code("EI0001", "[Init][EnvVarParam]"),
    Sign(
        "HCCL_IF_IP",
        Role.OWN,
        ("is not found in the nic list",),
        "HCCL_IF_IP is not an address of this host",
        "remove HCCL_IF_IP from the profile, or set it to each host's own address (HST110, ENV106)",
    ),
    _listening("EI0019", 2, "the host's NIC"),
    _listening("EI0020", 1, "the device's NIC"),
    _listening("EI0020", 0, "the device's virtual NIC"),
    _bound("EI0019", "Failed to enable listening for the host network"),
    _bound("EI0020", "Failed to enable listening for the NPU network"),
    _bound("EJ0003", "have already been bound"),
    _code("EI0019", "Failed to enable listening for the host network"),
    _code("EI0019", "ra socket listen start fail"),
    _code("EI0019", "ra listen start failed"),
    _code("EI0019", "bind fail", "port", "sock"),
    _code("EI0019", "bind and listen fail"),
    _code("EI0019", "rs_connect_bind_client_failed"),
    _code("EJ0001", "Failed to initialize the HCCP process"),
    _code("EJ0001", "Open TsdClient failed"),
    _code("EJ0002", "The network port is down"),
    _code("EJ0002", "ra hdc message process failed ret(-67)"),
    _code("EJ0003", "Failed to bind the IP port"),
    _code("EJ0004", "Check ip fail"),
    _code("EI0014", "in the ranktable is inconsistent with the IP address"),
    _code("EI0014", "devices have same superDeviceId"),
    _code("EI0014", "device ip family[", "is not same as others"),
    _code("EI0016", 'config "tls" is invalid'),
    _code("EI0016", "tlsStatus are inconsistent"),
    _code("EI0004", "not a valid real path"),
    _code("EI0004", "super_device_id[", "is invalid"),
    _code("EI0004", "The ranktable or rank is invalid"),
    _code("EI0004", "to json fail. please check json file"),
    _code("EI0004", "[HcomLoadRanktableFile]", "real path error"),
    _code("EI0004", "[ERROR]", "[RanktableConfig]"),
    _code("EI0004", "[Parse][ClusterInfo]"),
    _code("EI0004", "'device ip' is not set correctly"),
    _code("EI0015", "topo exchange server get socket timeout"),
    _code("EI0015", "topo exchange agent get socket timeout"),
    _code("EI0015", "TopoDetect ERROR"),
    _code("EI0015", "is different with rank list size"),
    _code("EI0015", "connect server[", "] failed"),
    _code("EI0015", "[Recv][ClusterInfoMsg]receive"),
    _code("EI0003", "collective communication operator has an invalid argument"),
    _code("EI0003", "DataType check fail"),
    _code("EI0005", "CMD information", "check fail"),
    _code("EI0005", "arguments for collective communication are inconsistent"),
    _code("EI0005", "[RankConsistentImpl][CompareFrame]"),
    _code("EI0005", "[ERROR]", "[ParameterConflict]"),
    Sign(
        "EI0006-superpod",
        Role.LINK,
        ("different physical superpod ID info",),
        "ranks of different super-pods may share one logical super-pod ID",
        "compare HCCL_LOGIC_SUPERPOD_ID on each host with its super-pod (NPU123)",
    ),
    _code("EI0013", "error CQE occurred"),
    _code("EI0013", "error cqe status"),
    _code("EI0013", "cqe error status"),
    _code("EI0013", "cqe err status"),
    _code("EI0013", "failed CQE status["),
    _code("EI0012", "sdma error"),
    _code("EI0012", "SDMA memory copy task exception"),
    _code("EI0012", "rt memory async copy failed"),
    _code("EI0012", "rt reduce async fail"),
    _code("EI0013", "rt rdma send fail"),
    _code("EI0013", "[Send][RaWr"),
    _code("EI0012", "un failed", "taskType[Memcpy]"),
    _code("EI0012", "un failed", "taskType[Reduce Inline]"),
    _code("EI0009", "Connect][Qp]get qp status timeout"),
    _code("EI0009", "rdma init fail"),
    _code("EI0007", "ra qp create fail"),
    _code("EI0007", "Notify create failed"),
    _code("EI0011", "bytes of NPU memory"),
    _code("EI0011", "NPU out of memory"),
    Sign(
        "driver-mounts",
        Role.OWN,
        ("ascend_hal device count",),
        "parts of the driver are missing, in a container usually because a mount is missing",
        "mount /usr/local/dcmi, /etc/ascend_install.info and the driver into the container (HST111)",
    ),
    Sign(
        "device-address",
        Role.OWN,
        ("Failed to get device ip from hccn.conf",),
        "neither /etc/hccn.conf nor hccn_tool has the device's address",
        "configure the device's address. In a container, also mount /etc/hccn.conf (NPU101, HST111)",
    ),
    Sign(
        "ai-cpu-timeout",
        Role.OWN,
        ("AI CPU operator execution time out",),
        "an operator on the device's AI CPU timed out",
        "check the device's health (NPU113), then check the operator\nnpu-smi info",
    ),
    Sign(
        "ipc-memory",
        Role.LINK,
        ("ipc memory fail",),
        "two processes on one host could not share memory: the other one has ended or is in another container",
        "check the other process. Give all devices of the host to one container (NPU124)",
    ),
    Sign(
        "ipc-memory",
        Role.LINK,
        ("rtSet Ipc Memory Name",),
        "two processes on one host could not share memory: the other one has ended or is in another container",
        "check the other process. Give all devices of the host to one container (NPU124)",
    ),
    Sign(
        "socket-lost",
        Role.WAIT,
        ("[Recv][RaSocket]",),
        "an HCCL connection was lost because the other rank has ended",
        "read the other rank's log",
    ),
    Sign(
        "p2p-timeout",
        Role.WAIT,
        ("connected p2p timeout",),
        "a device on the same host was not ready in time: its rank died or is late, or the link between them is down",
        "check the other rank, then the links inside the host (NPU124, PRB101)",
    ),
    Sign(
        "p2p-timeout",
        Role.WAIT,
        ("Wait timeout for get P2P status",),
        "a device on the same host was not ready in time: its rank died or is late, or the link between them is down",
        "check the other rank, then the links inside the host (NPU124, PRB101)",
    ),
    _code("EI0006", "SocketEstab]", "get socket timeout"),
    _code("EI0006", "Some NPUs get socket timeout"),
    replace(_code("EI0006", "ocket"), pattern=_SOCKETS),
    _code("EI0006", "wait socket establish timeout"),
    _code("EI0006", "Getting socket times out"),
    _code("EI0006", "inks establish completed failed"),
    _code("EI0006", "fails to connect to dstRank"),
    _code("EI0006", "Transport init error", "reate"),
    _code("EI0006", "connection failure between this device and"),
    _code("EI0002", "Task run failed", "[Timeout]"),
    _code("EI0002", "un failed", "taskType[Notify Wait]"),
    _code("EI0002", "notify wait timeout"),
    _code("EI0002", "Notify register times out"),
    Sign(
        "heartbeat",
        Role.WAIT,
        ("[HeartbeatAbnormal]", "crimer rank"),
        "heartbeats of another rank were lost: its process has ended, or the network to it failed",
        "read the log of the rank that this line names (PRB101)",
    ),
    Sign(
        "heartbeat",
        Role.WAIT,
        ("Cluster Exception Location", "ExceptionType"),
        "another rank stopped responding or makes no progress",
        "check the process, then the network of the rank that this line names (PRB101)",
    ),
)

TLS_DIFFERS = _code("EI0016")
LATE = Sign(
    "late-rank",
    Role.OWN,
    (),
    "a rank started after the others' timeout, because it downloads or compiles first, or because its host is slow",
    "copy data and caches to all hosts before the start (HST113) and check the host's load (HST116). Otherwise raise "
    "HCCL_CONNECT_TIMEOUT",
)
