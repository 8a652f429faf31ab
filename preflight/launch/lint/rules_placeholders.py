"""Values that a document leaves to its reader: `YOUR_IP`, `{master_ip}`, `xx.xx.xx.xx`. Pure."""

import re
from collections.abc import Iterator

from preflight.launch.lint.master_addresses import addresses, ports
from preflight.launch.lint.types import JobStart, Script, ScriptFault, Word

_NAME = re.compile(r"[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,8}")  # of a variable, perhaps with its $ forgotten
_LEFT_IN = (
    r"<[^<>]{1,80}>",
    r"\{{1,2} {0,3}[A-Za-z_][\w .-]{0,80}\}{1,2}",
    r"\[[A-Za-z_][\w .-]{0,80}\]",
    r"(?i:(?:\w{0,40}_)?your[\w .-]{0,80})",
    _NAME.pattern,
    r"[xX]{2,40}|\*{2,40}|(?:[xX*]{1,4}\.){3}[xX*]{1,4}",
)
_ADDRESS = (
    r"(?i:ip|addr|address|ip ?addr(?:ess)?)",
    r"(?i:(?:[a-z0-9]{1,40}_){1,6}(?:ip|addr|address)|(?:ip|addr|address)(?:_[a-z0-9]{1,40}){1,6})",
    r"[^\n]{0,80}[\u4e00-\u9fff][^\n]{0,80}",
    r"[A-Za-z0-9_.-]{1,40}(?: [A-Za-z0-9_.-]{1,40}){1,8}",  # no name of a host has a blank
)
_VALUE = re.compile("|".join(_LEFT_IN))
_HOST = re.compile("|".join((*_LEFT_IN, *_ADDRESS)))
_RANKS = ("node-rank", "nnodes", "nproc-per-node", "worker-num", "local-worker-num")
_COUNTS = ("num-nodes", "np", "n", "nodes", "ntasks")
# A master's address with a few x in it is a fault of rules_values already.
_HALF = re.compile(rf"(?=[0-9.]{{0,12}}[xX*])(?:(?:[0-9]{{1,3}}|[xX*]{{1,4}})(?:\.|\Z)){{4}}|{_HOST.pattern}")
_ADDRESSES = ["MS_SCHED_HOST", "HCCL_IF_IP", "HOST_IP", "VLLM_HOST_IP"]
_NUMBERS = ["MS_SCHED_PORT", "MS_WORKER_NUM", "NODE_RANK", "NNODES", "RANK", "RANK_ID", "RANK_SIZE", "WORLD_SIZE"]
_NAMES = ["RANK_TABLE_FILE", "HCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"]
_SETTINGS = {**dict.fromkeys(_ADDRESSES, _HALF), **dict.fromkeys((*_NUMBERS, *_NAMES), _VALUE)}

Value = tuple[str, Word, re.Pattern[str]]  # text, place, form of a placeholder for it


def _values(script: Script) -> Iterator[Value]:
    """Yield the values that decide where a job runs, and with which ranks."""
    yield from ((address, word, _HOST) for address, _, word in addresses(script))
    yield from ((port, word, _VALUE) for port, word in ports(script))
    yield from (value for start in script.starts for value in _of_options(start))
    for name, form in _SETTINGS.items():
        settings = {script.setting(name), *(script.setting(name, start) for start in script.starts)}
        yield from ((*setting, form) for setting in settings if setting)


def _of_options(start: JobStart) -> Iterator[Value]:
    yield from ((word.text, word, _VALUE) for name in (*_RANKS, *_COUNTS) if (word := start.value(name)))
    if start.hosts:
        yield from ((entry.partition(":")[0], start.hosts, _HOST) for entry in start.hosts.text.split(","))


def placeholders(script: Script) -> Iterator[ScriptFault]:
    """Yield each placeholder once: where a variable gets it, rather than where the variable is used."""
    places: dict[str, Word] = {}
    for text, word, form in _values(script):
        if form.fullmatch(text):
            first = places.setdefault(text, word)
            if (word.spot.line, word.spot.column) < (first.spot.line, first.spot.column):
                places[text] = word
    for text, word in places.items():
        do = "replace it with the value" + (f" or with ${text}" if _NAME.fullmatch(text) else "")
        yield script.fault(word, f"{text} is a placeholder", text, "a value for this job", do)
