"""The variables of NCCL as NCCL and torch read them. Pure.

NCCL's are those of src/misc/param.cc, src/misc/utils.cc and the user guide's list, torch's those of
ProcessGroupNCCL.hpp."""

import re
from collections.abc import Iterable, Mapping, Sequence

from preflight.model.outcome import Outcome

# Variables that are numbers. NCCL takes the digits at their beginning. Without any it takes 0, or, in later releases,
# the default.
NUMBERS = (
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_TC",
    "NCCL_IB_SL",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_BUFFSIZE",
    "NCCL_NTHREADS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_CROSS_NIC",
    "NCCL_NVLS_ENABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_DMABUF_ENABLE",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_PXN_DISABLE",
    "NCCL_RAS_ENABLE",
)
FAMILIES = ("AF_INET", "AF_INET6")
# Variables of torch that had no prefix TORCH_ before torch 2.2. Later releases read both names, and warn. Earlier ones
# know none with TORCH_.
RENAMED = ("NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING")
RENAMED_IN = (2, 2)

# Variables that may differ between hosts: interfaces, devices, files and logs.
_OWN = re.compile(
    r"NCCL_(SOCKET_IFNAME|OOB_NET_IFNAME|IB_HCA|HOSTID|DEBUG.*|CONF_FILE|TOPO_.*|GRAPH_.*|RAS_ADDR|IGNORE_CPU_AFFINITY"
    r"|SET_THREAD_NAME|LOG.*|INSPECTOR_.*|PROFILE.*|VERSION)"
)
# Ranks that differ in these do not find each other, or hang in different algorithms, which is a failure. Differences in
# all others make ranks slower, or time out at different times. Unset means the default.
_MUST_AGREE = {
    "NCCL_NET": "",
    "NCCL_IB_DISABLE": "0",
    "NCCL_SOCKET_FAMILY": "",
    "NCCL_COMM_ID": "",
    "NCCL_ALGO": "",
    "NCCL_PROTO": "",
    "NCCL_BUFFSIZE": "4194304",
    "NCCL_COLLNET_ENABLE": "0",
}
_CHOSEN = ("NCCL_NET", "NCCL_SOCKET_FAMILY")  # unset, NCCL may choose the value that is set on the other hosts


def number(value: str) -> int | None:
    """Return strtoll(3) of a whole value, base 0 as in C; None if characters are missing or left over."""
    match = re.fullmatch(r"\s*([+-]?)(0[xX][0-9a-fA-F]{1,15}|[0-9]{1,18})", value)
    if not match:
        return None
    sign, digits = match.groups()
    if digits[:2].lower() == "0x":
        size = int(digits, 16)
    elif digits.startswith("0"):
        size = int(re.match("[0-7]*", digits)[0] or "0", 8)  # type: ignore[index]  # it matches anything
    else:
        size = int(digits)
    return -size if sign == "-" else size


def is_on(variables: Mapping[str, str], name: str) -> bool:
    return (number(variables.get(name, "")) or 0) != 0


def by_sockets(variables: Mapping[str, str]) -> str:
    """Return the variable that keeps NCCL from RDMA; "" if none does."""
    if variables.get("NCCL_NET", "").lower() == "socket":
        return "NCCL_NET"
    return "NCCL_IB_DISABLE" if is_on(variables, "NCCL_IB_DISABLE") else ""


def hcas(patterns: str, devices: Iterable[str]) -> tuple[str, ...]:
    """Return the devices that NCCL_IB_HCA fits, at some port: `[^][=]device[:port],…`, beginnings unless there is a
    `=`."""
    negated, exact, words = read_patterns(patterns)
    if not words:
        return tuple(devices)
    if negated:  # a word with a port leaves the device's other ports
        return tuple(device for device in devices if not fits_any(device, [w for w, port in words if not port], exact))
    return tuple(device for device in devices if fits_any(device, [word for word, _ in words], exact))


def more_than_meant(patterns: str, devices: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return a word of NCCL_IB_HCA that is a device's name, and the other devices that it also fits: mlx5_1 fits
    mlx5_10.

    Devices that another word names are left out."""
    _, exact, words = read_patterns(patterns)
    named = {word for word, _ in words}
    for word in (word for word, _ in words if not exact and word in devices):
        extra_devices = tuple(device for device in devices if device.startswith(word) and device not in named)
        if extra_devices:
            return word, extra_devices
    return None


def exactly(patterns: str) -> str:
    """Return the same patterns with the `=` that makes names of them."""
    return f"^={patterns[1:]}" if patterns.startswith("^") else f"={patterns}"


def read_patterns(patterns: str) -> tuple[bool, bool, list[tuple[str, str]]]:
    """Return (negated, exact, words with their ports)."""
    negated = patterns.startswith("^")
    exact = patterns[negated:].startswith("=")
    parts = (word.partition(":") for word in patterns[negated + exact :].split(","))
    return negated, exact, [(word, port) for word, _, port in parts if word]


def fits_any(name: str, words: Iterable[str], exact: bool) -> bool:
    return any(name == word if exact else name.startswith(word) for word in words)


def unequal(name: str, *meanings: str) -> Outcome | None:
    """Return the outcome if hosts differ in a variable by having these meanings; None if they may."""
    if not name.startswith(("NCCL_", "TORCH_NCCL_")) or _OWN.fullmatch(name):
        return None
    if name.endswith(("_FILE", "_DIR", "_PATH")):
        return None
    harmless = name in _CHOSEN and "" in meanings
    return Outcome.FAIL if name in _MUST_AGREE and not harmless else Outcome.WARN


def meaning(name: str, value: str | None) -> str:
    """Return the meaning of a value (None: not set) to NCCL, for comparison."""
    if value is None or not value:
        return _MUST_AGREE.get(name, "")
    size = number(value) if name in NUMBERS or name in _MUST_AGREE else None
    if size is not None:
        return str(size)
    return value.lower() if name in ("NCCL_NET", "NCCL_ALGO", "NCCL_PROTO") else value
