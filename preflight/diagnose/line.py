"""One line of a log: its time, writer and level, in the formats of plog, NCCL, torch, launchers and kernels. Pure."""

import re
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass

from preflight.diagnose.types import LogLine, Who

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|[\x00-\x08\x0b-\x1f\x7f]"
)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_CLOCK = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)"
_NAMED = r"(?P<m>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TIMES = tuple(
    re.compile(pattern)
    for pattern in (
        # plog 2025-10-23-17:30:40.098.984, Python's logging 2025-10-23 17:30:40,098, torchrun's table
        # 2025-10-23_17:30:40, dmesg --time-format iso
        rf"(?P<Y>\d{{4}})-(?P<m>\d\d)-(?P<d>\d\d)[-T _]{_CLOCK}(?:[.,](?P<f>\d{{1,9}})(?:\.(?P<u>\d{{3}}))?)?"
        r"(?P<z>Z|[+-]\d\d:?\d\d(?!\d))?",
        # torch's C++ in brackets and with the month as 3 or 03, torchrun's Python without brackets
        rf"(?:^|[\[\s])[IWEF](?P<m>\d{{1,2}}?)(?P<d>\d\d) {_CLOCK}\.(?P<f>\d{{1,9}})",
        rf"{_NAMED} +(?P<d>\d{{1,2}}) {_CLOCK} (?P<Y>\d{{4}})\b",  # dmesg -T
        rf"\[{_NAMED} +(?P<d>\d{{1,2}}) (?P<Y>\d{{4}}) {_CLOCK}\]",  # fabric manager
        rf"^{_NAMED} +(?P<d>\d{{1,2}}) {_CLOCK} ",  # syslog
    )
)
_BOUNDS = ((1970, 2100), (1, 12), (1, 31), (0, 23), (0, 59), (0, 60))  # year to second
_HEAD = 160  # characters in which a time and a level may be

_PLOG = re.compile(r"\[(?P<level>[A-Z]{4,9})\] ?[A-Z_]{2,16}\((?P<pid>\d{1,10}),")
_FATAL = dict.fromkeys(("CRITICAL", "EXCEPTION", "FATAL"), "ERROR")  # levels of MindSpore above ERROR
_SCREEN = re.compile(
    r"\[PID: ?(?P<pid>\d{1,10})\]|\(PID:(?P<pid2>\d{1,10}), Device:(?P<device>\d{1,4}), RankID:(?P<rank>\d{1,6})\)"
    r"|local_rank: (?P<local>\d{1,4}) \(pid: (?P<pid3>\d{1,10})\)|exitcode {0,9}: -?\d{1,3} \(pid: (?P<pid4>\d{1,10})\)"
    r"|exited with code -?\d{1,3}.{0,40}\bpid[ =:]{1,2}(?P<pid5>\d{1,10})|\) received by PID (?P<pid6>\d{1,10})"
)
_UCX = re.compile(r"\[(?P<host>[A-Za-z][\w.-]{0,252}):(?P<pid>\d{1,10}):\d{1,6}(?::\d{1,10})?\]")
_OPEN_MPI = re.compile(r"^(?:\[\d+,\d+\]<\w+>:)?\[(?P<host>[A-Za-z][\w.-]{0,252}):(?P<pid>\d{1,10})\] ")
# torch's report of ranks that are out of step: its numbers are ranks that it names.
_DESYNC = re.compile(r"\] (?:finished|joined but didn't finish) collective #")
_NCCL = re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,252}):(?P<pid>\d{1,10}):\d{1,10} \[(?P<device>\d{1,4})\]")
_NCCL_RANK = re.compile(r" NCCL INFO .{0,80}\brank \d{1,6} nranks \d")
_NCCL_INFO = re.compile(r"\bNCCL (?:INFO|TRACE)\b")
_RAY = re.compile(r"\((?:\w{1,60} )?pid=(?P<pid>\d{1,10})(?:, ip=(?P<host>[\w.:-]{1,60}))?\)")
_SYSLOG = re.compile(
    rf"^(?:{_NAMED} +\d{{1,2}} [\d:]{{8}}|[\d-]{{10}}T\S{{8,30}}) "
    r"(?P<host>[\w.-]{1,253}) [\w./@-]{1,80}(?:\[\d+\])?: "
)
# srun reports all tasks; a job step's own daemon has its host in its name, if at all.
_SRUN = re.compile(r"srun: error: (?P<host>[\w.,\[\]-]{1,253}): tasks? (?P<tasks>[\d,-]{1,200}): ")
_GLOG = re.compile(r"(?:^|[\[\s])(?P<level>[IWEF])\d{3,4} \d\d:\d\d:\d\d|(?:^|\[)(?P<old>[IWEF]) [\w/]+\.cpp:\d+\]")
_LOGGED = re.compile(r"(?<!=)\b(?:INFO|WARNING|DEBUG|NOTICE)\b")
_AGAIN = (
    r"\b[Rr]etrying\b|\bwill retry\b|\breconnect(?:ing|ed)\b|\b(?:will try|trying) again\b|\bnext try\b"
    r"|\btrying another\b"
)
_RETRY = re.compile(rf"{_AGAIN}|\b[Rr]etry\b")
_RETRY_OF_NCCL = re.compile(_AGAIN)  # NCCL's "transport retry counter exceeded" is an error
# The last line of a traceback: its words are often advice, unless they count seconds.
_RAISED = re.compile(
    r"(?:\[[^\]]{1,60}\](?:<std\w{3}>)?:? ?|\([^)]{1,100}\) ?|\d{1,6}: )?"
    r"(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? )?"
    r"(?:[A-Za-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): "
)
_COUNTED = re.compile(r"\b(?:[Rr]etry(?:ing)?|again|[Nn]ext try|[Rr]econnecting)\W{0,3}(?:in|after) \d")
_CODE = re.compile(r"\bE[IJ]\d{4}\b")  # of HCCL; its messages end with steps to take before the next try

_TAGS = tuple(  # prefixes of lines, by launchers and by torch itself
    re.compile(pattern)
    for pattern in (
        r"\[rank(?P<rank>\d{1,6})\]:?",
        r"^\[\d+,(?P<rank>\d{1,6})\]<std(?:out|err)>:",  # mpirun --tag-output
        r"^\[(?P<rank>\d{1,6})\](?::|\s)",
        r"^ *(?P<rank>\d{1,6}): ",  # srun --label
        r"\[[Rr]ank (?P<rank>\d{1,6})\]",
        r"\[PG [^\]]{0,120}Rank (?P<rank>\d{1,6})\]",
        r"\bRank (?P<rank>\d{1,6}) successfully reached",
        r"^\[(?:default|trainer|worker)(?P<device>\d{1,4})\]:",  # torchrun: role and local rank
    )
)
_RANK = re.compile(
    r"(?:localUserrank|userRank|rankId)\[(\d{1,6})\]|\brole\[\d+\] rank\[(\d{1,6})\]|ranks\[\d+\], rank\[(\d{1,6})\]"
    r"|local rank \[[^\]/]{1,64}/(\d{1,6})\]|on rank: (\d{1,6})\b|\brank (\d{1,6}) nranks \d"
    r"|: task (\d{1,6}): (?:Out Of|Segm|Bus|Kill|Abort|Illeg|Float|Exited)"
    r"|\brankNum\[\d{1,6}\], rank\[(\d{1,6})\]|\brank\[(\d{1,6})\], totalRanks\[|^rank {1,9}: (\d{1,6}) \(local_rank"
    r"|role\[\d\] rank\[(\d{1,6})\]|\brank (\d{1,6}) with PID \d|\bRank\[(\d{1,6})\] failed"
)
_DEVICE = re.compile(
    r"(?:deviceLogicId|devicePhyId|deviceId|\bdevice)\[(\d{1,4})\]|\bdevice ID (\d{1,4})\b|\bdev_id=(\d{1,4})\b"
    r"|/device-(\d{1,4})/|\b[dD]evice_?[iI]d ?[=:] ?(\d{1,4})\b|\blogicDevId\[(\d{1,4})\]"
    r"|\blogicDevid:(\d{1,4})\b|\bdevid\((\d{1,4})\)|\bDevice (\d{1,4}) (?:may be|call)"
)
_HOST = re.compile(
    r"\(server ([\w.:-]{1,64}),|\blocalIpAddr\[([\w.:]{1,64})|hostIp\[([\w.:]{1,64})"
    r"|\bslurmstepd-([\w.-]{1,64}): |\bwith PID \d{1,10} on node ([\w.-]{1,64}) exited"
    r"|information: server ([\w.:-]{1,64}),|localInfo\{server\[([\w.:]{1,64})|local rank \[([\w.:]{1,64})/"
)
# Sockets of an older HCCL name the peer in the form in which other lines name their writer.
_PEER_SOCKET = re.compile(r"\bSocketEstab\]|ClientSocketEstab\]|ServerSocketEstab\]")
_PCI = re.compile(r"\(PCI:([0-9a-fA-F:.]{1,20})\)")

_PEERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:remoteUserrank|remote rank:|Remote rank: )\[(?P<rank>\d{1,6})\]",
        r"Ranks? (?P<ranks>[\d, ]{1,400}) failed to pass monitoredBarrier",
        r"Failed to connect agent\[(?P<ranks>[\d, ]{1,400})\]",
        r"\bremote rank\[(?P<rank>\d{1,6})\]",
        r"send/recv from rank (?P<rank>\d{1,6})\b",
        r"(?:crimer rank |Cluster Exception Location\[IP/ID\]:)\[(?P<peer>[\w.:]{1,64}/\d{1,6})\]",
        r"connect to dstRank \(server (?P<peer>[\w.:-]{1,64}, device ID \d{1,4})\)",
        r"Peer information: server (?P<peer>[\w.:-]{1,64}, device ID \d{1,4})",
        r"remoteIP\{server\[(?P<peer>[\w.:]{1,64})",
        r"connect server\[(?P<peer>[\w.:]{1,64}) ?: ?\d",
        r"(?:UniqueId|hcclUniqueId) from \[(?P<rank>\d{1,6})\]",
        r"from peer (?P<peer>[\w.:-]{1,64}?)<\d+>",
        r"by peer \[(?P<peer>[\w.:]{1,64})\]:\d|Read error \[(?P<read>[\w.:]{1,64})\]:\d",
        r"trying to connect to \((?P<peer>[\w.:-]{1,64}), \d+\)",
        r"SocketEstab\].{0,80}(?:client|server) ?: ?device\[\d{1,4}\] rank\[(?P<rank>\d{1,6})\]",
        r"\[(?P<ranks>[\d, ]{1,400})\.{0,3}\] (?:finished|joined but didn't finish) collective #",
        r"ranks \[(?P<ranks>[\d, ]{1,400})\.{0,3}\] are the lagging",
        r"\|  [\d.:a-f]{3,45}\((?P<rank>\d{1,6})\) {1,9}\|  \d{1,6}  \|",
        r"remote physic id:(?P<device>\d{1,4})\b|dst devicePhyId\[(?P<device2>\d{1,4})\]",
        r"closed by remote peer (?P<peer>[\w.:-]{1,64}?)<\d+>",
    )
)


def clean(text: str) -> str:
    """Return `text` without terminal escapes and other control characters."""
    return _ESCAPE.sub("", text)


def time_of(text: str, year: int) -> float | None:
    """Return the line's time in seconds since 1970, None without one.

    `year` is that of lines that have none. The time is in the log's own zone, unless the line names one.
    """
    for pattern in _TIMES:
        if match := pattern.search(text[:_HEAD]):
            return _seconds(match.groupdict(""), year)
    return None


def _seconds(part: Mapping[str, str], year: int) -> float | None:
    month = _MONTHS.get(part["m"]) or int(part["m"])
    moment = (int(part.get("Y") or year), month, *(int(part[name]) for name in ("d", "H", "M", "S")))
    if not all(low <= value <= high for value, (low, high) in zip(moment, _BOUNDS, strict=True)):
        return None
    fraction = part.get("f", "") + part.get("u", "")
    return timegm(moment) + float(f"0.{fraction or 0}") - _zone(part.get("z", ""))


def _zone(text: str) -> int:
    if text in ("", "Z"):
        return 0
    digits = text[1:].replace(":", "")
    return (-1 if text[0] == "-" else 1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)


@dataclass(frozen=True)
class _Prefix:
    """The writer of a line, by the line's beginning. `host` is set if every line of the writer has it."""

    pid: int | None = None
    host: str = ""
    device: str = ""
    rank: int | None = None
    level: str = ""
    tag: str = ""


def parse_line(raw: str, year: int) -> LogLine:
    """Return the parts of a line; what it does not name stays unknown. Never raises."""
    text = clean(raw).strip()
    head = text[:_HEAD]
    tagged = _tagged(text, head)
    writer = _library_prefix(text[:400]) or _launcher_prefix(text[:400], head)
    tag = writer.tag or tagged.tag or (f"{writer.host}:{writer.pid}" if writer.pid is not None else "")
    rank = _rank(text, tagged, writer)
    host = writer.host or _group(_HOST.search(text))
    device = _device(text, writer.device or tagged.device)
    level = writer.level or _level(text, head)
    return LogLine(text, time_of(text, year), tag, Who(rank, host, device, writer.pid), level, tuple(_peers(text)))


def _library_prefix(text: str) -> _Prefix | None:
    """Return the writer by the prefix of CANN or NCCL."""
    if match := _PLOG.search(text):
        return _Prefix(int(match["pid"]), level=_FATAL.get(match["level"], match["level"]))
    if match := _NCCL.search(text):
        level = "INFO" if _NCCL_INFO.search(text) else ""
        return _Prefix(int(match["pid"]), match["host"], match["device"], level=level)
    return None


def _launcher_prefix(text: str, head: str) -> _Prefix:
    """Return the writer by what a launcher, the host's log or MPI puts before a line."""
    if match := _SRUN.search(head):
        return _Prefix(host=match["host"], tag=match[0])
    if match := _SCREEN.search(text):
        return _of_screen(match)
    if match := _RAY.search(head):
        return _Prefix(int(match["pid"]), match["host"] or "")
    if match := _SYSLOG.search(text):
        return _Prefix(host=match["host"])
    if match := _UCX.search(head) or _OPEN_MPI.search(head):
        return _Prefix(int(match["pid"]), match["host"])
    return _Prefix()


def _of_screen(match: re.Match[str]) -> _Prefix:
    """Return the writer by a message on the screen that names a process."""
    group = match.groupdict()
    pid = next(filter(None, (group[name] for name in ("pid", "pid2", "pid3", "pid4", "pid5", "pid6"))))
    rank = int(group["rank"]) if group["rank"] else None
    return _Prefix(int(pid), device=group["device"] or group["local"] or "", rank=rank)


def _rank(text: str, tagged: _Prefix, writer: _Prefix) -> int | None:
    """Return the rank of the line's writer, by the line's beginning or by its text, unless the text names peers."""
    for prefix in (tagged, writer):
        if prefix.rank is not None:
            return prefix.rank
    if _DESYNC.search(text) or _PEER_SOCKET.search(text):
        return None
    match = _RANK.search(text)
    return int(_group(match)) if match else None


def _device(text: str, by_prefix: str) -> str:
    """Return the device of the line's writer, by the line's beginning (`by_prefix`) or by its text."""
    if match := _PCI.search(text):
        return match[1]
    if by_prefix or _PEER_SOCKET.search(text):
        return by_prefix
    return _group(_DEVICE.search(text))


def _group(match: re.Match[str] | None) -> str:
    """Return the first group that matched, empty if none did."""
    return next(filter(None, match.groups()), "") if match else ""


def _tagged(text: str, head: str) -> _Prefix:
    """Return the writer by the tag of a launcher or of torch, if the tag's number is not of a peer."""
    if _DESYNC.search(text) or _NCCL_RANK.search(text):  # NCCL: a number in front of it may be of the line
        return _Prefix()
    for pattern in _TAGS:
        if match := pattern.search(head):
            group = match.groupdict()
            if group.get("rank"):
                return _Prefix(rank=int(group["rank"]), tag=f"rank{int(group['rank'])}")
            return _Prefix(device=group["device"] or "", tag=match[0])
    return _Prefix()


def _level(text: str, head: str) -> str:
    if match := _GLOG.search(head):
        letter = match["level"] or match["old"]
        return {"I": "INFO", "W": "WARNING"}.get(letter, "ERROR")
    if "NCCL WARN" in text:
        return "WARNING" if _RETRY_OF_NCCL.search(text) else ""
    if logged := _LOGGED.search(head):
        return logged[0]
    words = _COUNTED if _RAISED.match(text) else _RETRY
    return "WARNING" if words.search(text) and not _CODE.search(text) else ""


def _peers(text: str) -> list[str]:
    peers: list[str] = []
    for pattern in _PEERS:
        if match := pattern.search(text):
            group = match.groupdict()
            if numbers := group.get("ranks") or group.get("rank"):
                peers += [f"rank {int(number)}" for number in re.findall(r"\d+", numbers)][:64]
            elif device := group.get("device") or group.get("device2"):
                peers.append(f"device {device}")
            else:
                peers += [peer for peer in group.values() if peer]
    return list(dict.fromkeys(peers))
