"""STAND-IN: failures with the codes and sentences of HCCL, and a word that they come from the lab."""

import contextlib
import os
import time
from pathlib import Path

# HcclResult of the failures below, as in "error code is N".
PARA, UNAVAIL, TIMEOUT, NOT_SUPPORT, TCP_CONNECT = 1, 7, 9, 5, 11


def failure(code, title, text, result):
    """Return the exception that torch_npu raises when HCCL reports this error."""
    stamp = time.strftime("%Y-%m-%d-%H:%M:%S")
    _plog(f"{title}({code}): {text.splitlines()[0]} (stand-in of the preflight lab)", stamp)
    return RuntimeError(
        f"HCCL function error, error code is {result}\n"
        f"[ERROR] {stamp} ERR02200 DIST call hccl api failed. (stand-in of the preflight lab)\n"
        f"[PID: {os.getpid()}] {stamp} {title}({code}): {text}"
    )


def _plog(text, stamp):
    """A line in this process's log, where CANN has it; nothing where that cannot be written, as CANN does."""
    root = os.environ.get("ASCEND_PROCESS_LOG_PATH") or Path.home() / "ascend" / "log"
    folder = Path(root) / "debug" / "plog"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"plog-{os.getpid()}_{time.strftime('%Y%m%d%H%M%S')}000.log").open("a") as file:
            file.write(f"[ERROR] HCCL({os.getpid()},python3):{stamp}.000.000 [stand_in.cc:1] [{os.getpid()}]{text}\n")


def open_failed(device):
    """The runtime cannot open the device. Not HCCL's: it has neither seen a rank nor a network."""
    return RuntimeError(
        f"SetDevice: NPU function error: aclrtSetDevice, error code is 507033 (stand-in of the preflight lab)\n"
        f"[ERROR] {time.strftime('%Y-%m-%d-%H:%M:%S')} (PID:{os.getpid()}, Device:{device}, RankID:-1) "
        "ERR00100 PTA call acl api failed\nOpen device failed."
    )


def no_address(device):
    """The network port of the device has no address."""
    return failure(
        "EJ0004", "Check_Ip", f"Check ip fail. Reason: no ip address is configured on device {device}.", PARA
    )


def port_down(device):
    """The network port of the device has no link."""
    return failure("EJ0002", "Environment_Error", f"The network port is down. device[{device}]", UNAVAIL)


def device_in_use():
    """Another process has a communicator on the device."""
    return failure(
        "EJ0001",
        "HCCP_Process_Initialization_Failure",
        "Failed to initialize the HCCP process. Reason: Maybe the last training process is running.",
        UNAVAIL,
    )


def host_port_taken(address, port):
    """A port of HCCL on the host NIC is not free."""
    return failure(
        "EI0019",
        "Communication_Error_Bind_IP_Port",
        "Failed to enable listening for the host network adapter socket."
        f"Reason: The IP address {address} and port {port} have already been bound.\n"
        f"socket type[2], listen on ip[{address}] and specific port[{port}] fail. "
        "Please check the port status and whether the port is being used by other process.",
        UNAVAIL,
    )


def device_port_taken(address, port):
    """Port 16666 on the device is not free."""
    return failure(
        "EI0020",
        "Communication_Error_Bind_IP_Port",
        "Failed to enable listening for the NPU network adapter socket."
        f"Reason: The IP address {address} and port {port} have already been bound.\n"
        f"socket type[0], listen on ip[{address}] and specific port[{port}] fail. "
        "Please check the port status and whether the port is being used by other process.",
        UNAVAIL,
    )


def bad_environment(name, value, expected):
    """An environment variable of HCCL has an impossible value."""
    return failure(
        "EI0001",
        "Config_Error_Invalid_Environment_Variable",
        f"Value {value} for environment variable {name} is invalid. Expected value : {expected}.",
        PARA,
    )


def root_missing():
    """Rank 0 never said where its server is."""
    return RuntimeError(
        "Exception when retrieving hcclUniqueId from [0] via c10d key-value store. "
        "This may indicate a possible application crash on rank 0 or a network set up issue. (stand-in)"
    )


def server_timeout(seconds, scale, connected, size):
    """Not all ranks came to the root's server."""
    ranks = ",".join(f"[{rank:016d}]" for rank in sorted(connected))
    return failure(
        "EI0015",
        "Communication_Error_Ranktable_Detect",
        f"topo exchange server get socket timeout! timeout[{seconds} s] (the stand-in waits 1/{scale} of it)\n"
        f"total connected num is [{len(connected)}]\nneed connect rankNum is [{size}]\n"
        f"connected rankinfo[LINE 0]: {ranks};",
        TIMEOUT,
    )


def agent_timeout(seconds, scale, address, port):
    """The root's server did not answer."""
    return failure(
        "EI0015",
        "Communication_Error_Ranktable_Detect",
        f"topo exchange agent get socket timeout! timeout[{seconds}] (the stand-in waits 1/{scale} of it)\n"
        f"TopoExchangeAgent: connect server[{address} : {port}] failed",
        TIMEOUT,
    )


def tls_differs(enabled, disabled, mine):
    """The TLS switches of the ranks are not the same."""
    return failure(
        "EI0016",
        "Config_Error_Inconsistent_TLS",
        f'Value {"Enable" if mine else "Disable"} for config "tls" is invalid. Expected Value:'
        f'"All ranks are consistent. Current status : rankList for enabled tls:[{",".join(enabled)}]; '
        f'rankList for disabled tls:[{",".join(disabled)}]; rankList for query failure tls:".',
        PARA,
    )


def duplicate_address(address, ranks):
    """Two ranks have the same device address."""
    return failure("EI0014", "Config_Error_Ranktable", f"ranks {ranks} have the same device ip[{address}].", PARA)


def link_timeout(seconds, scale, mine, theirs, status):
    """A link between two devices was not established. `mine` and `theirs` are rank descriptions."""
    tls = "ENABLE" if mine["tls"] else "DISABLE"
    return failure(
        "EI0006",
        "Communication_Error_Get_Socket",
        f"Getting socket times out. Reason: wait socket establish timeout, role[1] rank[{mine['rank']}] "
        f"timeout[{seconds} s] (the stand-in waits 1/{scale} of it)\n"
        f"comm error, device[{mine['device']}]\n"
        "|  dest_ip(user_rank)  |   dest_port   |  src_ip(user_rank)   |   MyRole   |   Status   |    TlsStatus   |\n"
        f"|  {theirs['ip']}({theirs['rank']})  |  {theirs['port']}  |  {mine['ip']}({mine['rank']})  |  client  |"
        f"  {status}  |  {tls}  |",
        TIMEOUT,
    )


def notify_timeout(operation, cause):
    """A collective did not finish."""
    return failure(
        "EI0002",
        "Communication_Error_Timeout",
        "The wait execution of the Notify register times out. Reason: The Notify register has not received the "
        f"Notify record from remote rank. operation[{operation}] ({cause})",
        TIMEOUT,
    )


def unsupported_type(operation, dtype, product):
    """The product's HCCL does not take this data type in this operation."""
    return failure(
        "EI0003",
        "Invalid_Argument_Collective_Communication_Operator",
        f"In [{operation}], value [{dtype}] for parameter [dataType] is invalid on {product}.",
        NOT_SUPPORT,
    )
