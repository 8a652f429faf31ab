"""Acceptance rules for changes: the targets and values that checks, `gate install` and `ranktable --push` make.

Pure. Neither a plan file nor a host's journal is trusted: a file may have been edited, and a journal was written by the
host. The tables come first. A program on the host keeps the same targets: preflight/remote/apply/allowed.py.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from preflight.checks.ascend.hccn_conf import KEYS
from preflight.model.change import Area, Change, Kind, Risk
from preflight.provision.change_files import (
    has_block,
    includes_ours,
    inserts_rules,
    is_export,
    is_limit,
    own_lines,
    saves_rules,
    sets_ports,
)
from preflight.provision.change_values import (
    CHAIN,
    FIREWALLD_RULE,
    IPTABLES_RULE,
    NFT_RULE,
    SETTINGS,
    UFW_RULE,
    are_statements,
    is_address,
    is_interface,
    is_iptables_listing,
    is_mtu,
    is_nft_listing,
    is_port_list,
    is_ports,
    keeps_ports,
    one_of,
    rules_of,
)
from preflight.rules.firewall.persistent_rules import NFT_BOOT_FILE, NFT_OWN_FILE
from preflight.rules.setup_files import HOSTS_FILE, LIMITS_FILE, LIMITS_LINE, PROFILE_FILE, PROFILE_LINE
from preflight.rules.sysctl.reserved_ports import KEY

LARGEST_VALUE = 8 << 20  # bytes; a program on the host reads and writes no larger file
_NAME = r"(?!\.)[A-Za-z0-9_.@+-]{1,200}"


@dataclass(frozen=True)
class _WritableFile:
    """A file that preflight may change.

    `path` matches the whole path. `makes`: true if preflight writes `after` where `before` was. None: no plan file
    holds a change of this file, and only a rollback restores it.
    """

    area: Area
    path: re.Pattern[str]
    makes: Callable[[str | None, str | None], bool] | None = None


_DEVICE = r"(?:0|[1-9][0-9]?)"
FILES = (
    _WritableFile(Area.PORTS, re.compile(r"/etc/sysctl\.conf"), sets_ports),
    _WritableFile(Area.PORTS, re.compile(rf"(?:/etc|/run|/usr/local/lib)/sysctl\.d/{_NAME}\.conf"), sets_ports),
    _WritableFile(Area.PORTS, re.compile(rf"/etc/tuned/(?:profiles/)?{_NAME}/tuned\.conf"), sets_ports),
    _WritableFile(Area.ENVIRONMENT, re.compile(re.escape(HOSTS_FILE)), has_block),
    _WritableFile(Area.ENVIRONMENT, re.compile(re.escape(LIMITS_FILE)), own_lines(is_limit, LIMITS_LINE)),
    _WritableFile(Area.ENVIRONMENT, re.compile(re.escape(PROFILE_FILE)), own_lines(is_export, PROFILE_LINE)),
    _WritableFile(Area.ENVIRONMENT, re.compile(r"/etc/preflight/gate\.json")),
    _WritableFile(Area.FIREWALL, re.compile(re.escape(NFT_BOOT_FILE)), includes_ours),
    _WritableFile(Area.FIREWALL, re.compile(re.escape(NFT_OWN_FILE)), inserts_rules),
    _WritableFile(Area.FIREWALL, re.compile(r"/etc/(?:iptables|sysconfig)/(?:rules\.v[46]|ip6?tables)"), saves_rules),
    _WritableFile(Area.FIREWALL, re.compile(r"/etc/firewalld/zones/[A-Za-z0-9_-]{1,40}\.xml(?:\.old)?")),
    _WritableFile(Area.FIREWALL, re.compile(r"/etc/ufw/(?:user6?\.rules|ufw\.conf)")),
    _WritableFile(Area.ADDRESSES, re.compile(r"/etc/hccn\.conf")),
)


@dataclass(frozen=True)
class _Form:
    """A kind of change, except those of files.

    `target` matches the whole target. `plans`: true if a plan file may set the value. `puts_back`: the same for a
    rollback, if it differs. `may_unset`: true if a plan file may hold no value.
    """

    area: Area
    target: re.Pattern[str]
    plans: Callable[[str], bool] | None
    puts_back: Callable[[str], bool] | None = None
    may_unset: bool = False
    disturbs: bool = False


_ONLY_UFW = re.compile("ufw")
_PROGRAMS = re.compile(r"ip6?tables-(?:nft|legacy)")
_ZONE = re.compile(r"[\w-]{1,40}", re.ASCII)
_INDEX = re.compile(_DEVICE)
_INDEX_AND_KEYS = re.compile(rf"{_DEVICE}(?: (?:{'|'.join(KEYS)})){{1,{len(KEYS)}}}")
_BOOT_SERVICES = re.compile("firewalld|nftables|netfilter-persistent|ip6?tables")
_GATE = re.compile(r"/usr/local/sbin/preflight-gate|/usr/local/lib/preflight/gate")
_FIREWALL, _ADDRESSES = Area.FIREWALL, Area.ADDRESSES
FORMS: Mapping[Kind, _Form] = {
    Kind.PROGRAM: _Form(Area.ENVIRONMENT, _GATE, None, bool),
    Kind.SYSCTL: _Form(Area.PORTS, re.compile(re.escape(KEY)), is_ports, is_port_list),
    Kind.NFT_RULES: _Form(_FIREWALL, CHAIN, rules_of(NFT_RULE), are_statements, may_unset=True),
    Kind.NFT_INPUT: _Form(_FIREWALL, CHAIN, None, may_unset=True, disturbs=True),
    Kind.IPTABLES_RULES: _Form(_FIREWALL, _PROGRAMS, rules_of(IPTABLES_RULE), may_unset=True),
    Kind.IPTABLES_INPUT: _Form(_FIREWALL, _PROGRAMS, None, is_iptables_listing, may_unset=True, disturbs=True),
    Kind.FIREWALLD_RULES: _Form(_FIREWALL, _ZONE, rules_of(FIREWALLD_RULE), may_unset=True),
    Kind.FIREWALLD_PERMANENT: _Form(_FIREWALL, _ZONE, rules_of(FIREWALLD_RULE), may_unset=True),
    Kind.UFW_RULES: _Form(_FIREWALL, _ONLY_UFW, rules_of(UFW_RULE), may_unset=True),
    Kind.UFW_ENABLED: _Form(_FIREWALL, _ONLY_UFW, one_of("no"), one_of("yes", "no"), disturbs=True),
    Kind.SERVICE: _Form(
        _FIREWALL, re.compile("firewalld"), one_of("inactive"), one_of("active", "inactive"), disturbs=True
    ),
    Kind.SERVICE_AT_BOOT: _Form(
        _FIREWALL, _BOOT_SERVICES, one_of("disabled"), one_of("enabled", "disabled"), disturbs=True
    ),
    Kind.DEVICE_ADDRESS: _Form(_ADDRESSES, _INDEX, is_interface),
    Kind.DEVICE_GATEWAY: _Form(_ADDRESSES, _INDEX, is_address),
    Kind.DEVICE_DETECT: _Form(_ADDRESSES, _INDEX, is_address),
    Kind.DEVICE_MTU: _Form(_ADDRESSES, _INDEX, is_mtu),
    Kind.DEVICE_SAVED: _Form(_ADDRESSES, _INDEX_AND_KEYS, None),
    Kind.DEVICE_RECOVERY: _Form(_ADDRESSES, _INDEX_AND_KEYS, None, disturbs=True),
}
_SPELLED = (Kind.DEVICE_SAVED, Kind.DEVICE_RECOVERY)  # their values name the target's keys


# Refusals.


def plan_refusal(change: Change) -> str:
    """Return why a change of a plan file is not accepted, as a clause; empty if checks make such a change."""
    if objection := _text_refusal(change) or _target_refusal(change):
        return objection
    if not re.fullmatch(r"[A-Z]{3}[0-9]{3}", change.why):
        return f'"why" is {_quoted(change.why)}, which is not a check id'
    form = FORMS.get(change.kind)
    if not _is_planned(change, form):
        return f"preflight never plans this value for {_name(change)}: {_quoted(change.after)}"
    if form is not None and form.disturbs and change.risk is not Risk.DISTURBING:
        return f'{_name(change)} may disturb running programs, but "risk" is {change.risk}'
    return ""


def _is_planned(change: Change, form: _Form | None) -> bool:
    """Return whether checks make such a change."""
    if form is None:
        file = _file(change.target)
        return file is not None and file.makes is not None and file.makes(change.before, change.after)
    if change.kind in _SPELLED:
        return _is_spelled(change.target, change.after)
    if change.after is None:
        return form.may_unset
    if change.kind is Kind.SYSCTL:
        return is_ports(change.after) and keeps_ports(change.before, change.after)
    return form.plans is not None and form.plans(change.after)


def undo_refusal(change: Change, pushed: Collection[str] = ()) -> str:
    """Return why a change of a host's journal is not accepted, as a clause; empty if preflight may restore that value.

    `pushed`: files that the run wrote there for `ranktable --push`, as this machine knows.
    """
    if objection := _text_refusal(change):
        return objection
    if change.kind is Kind.FILE and _file(change.target) is None:
        return _push_refusal(change, pushed)
    if objection := _target_refusal(change):
        return objection
    if change.after is None or _is_put_back(change, change.after):
        return ""
    return f"preflight never restores this value for {_name(change)}: {_quoted(change.after)}"


def _is_put_back(change: Change, value: str) -> bool:
    """Return whether a rollback may set this value."""
    form = FORMS.get(change.kind)
    if form is None:
        return True
    if change.kind is Kind.NFT_INPUT:
        return is_nft_listing(value, change.target)
    if change.kind in _SPELLED:
        return _is_spelled(change.target, value)
    is_allowed = form.puts_back or form.plans
    return is_allowed is not None and is_allowed(value)


def operators_files(changes: Collection[Change]) -> list[str]:
    """Return the files of `changes` that are where the operator wanted them: those of `ranktable --push`."""
    files = (change for change in changes if change.kind is Kind.FILE and _file(change.target) is None)
    return sorted({file.target for file in files if _is_rank_table(file.before) or _is_rank_table(file.after)})


def _push_refusal(change: Change, pushed: Collection[str]) -> str:
    values = [value for value in (change.before, change.after) if value is not None]
    tables = list(filter(_is_rank_table, values))
    is_trusted = tables == values or change.target in pushed
    if change.area is Area.ENVIRONMENT and tables and is_trusted and _is_plain_path(change.target):
        return ""
    return f"preflight never changes {_name(change)}"


def _is_rank_table(text: str | None) -> bool:
    try:
        document = json.loads(text or "")
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and not {"server_list", "group_list", "rank_list"}.isdisjoint(document)


def _is_plain_path(path: str) -> bool:
    parts = path.split("/")
    return len(path) <= 1024 and parts[0] == "" and not {"", ".", ".."} & set(parts[1:])


def _file(path: str) -> _WritableFile | None:
    return next((file for file in FILES if file.path.fullmatch(path) and _is_plain_path(path)), None)


def _text_refusal(change: Change) -> str:
    for name in ("host", "target", "why", "note"):
        text = getattr(change, name)
        if len(text) > 1024 or not text.isprintable():
            return f'"{name}" is {_quoted(text)}, but must be printable and at most 1,024 characters long'
    for value in (change.before, change.after):
        if value is not None and ("\0" in value or len(value.encode("utf-8", "replace")) > LARGEST_VALUE):
            return f"a value of {_name(change)} has a NUL byte, or more than {LARGEST_VALUE >> 20} MiB"
    return ""


def _target_refusal(change: Change) -> str:
    form = FORMS.get(change.kind)
    owner: _WritableFile | _Form | None = form if form and form.target.fullmatch(change.target) else None
    if form is None:
        owner = _file(change.target)
    if owner is None or (change.kind in _SPELLED and not _has_keys_once(change.target)):
        return f"preflight never changes {_name(change)}"
    if change.area is not owner.area:
        return f'{_name(change)} belongs to the area {owner.area}, but "area" is {change.area}'
    return ""


def _has_keys_once(target: str) -> bool:
    keys = target.split(" ")[1:]
    return keys == [key for key in KEYS if key in keys]


def _is_spelled(target: str, value: str | None) -> bool:
    """Return whether `value` has a setting for each key that `target` names: "address 10.0.0.1/24 gateway none"."""
    words, keys = (value or "").split(" "), target.split(" ")[1:]
    pairs = zip(words[::2], words[1::2], strict=False)
    are_valid = all(text == "none" or SETTINGS[key](text) for key, text in pairs if key in SETTINGS)
    return words[::2] == keys and len(words) == 2 * len(keys) and are_valid


def _name(change: Change) -> str:
    return f"{change.kind} {_quoted(change.target)}"


def _quoted(text: str | None) -> str:
    """Return `text`, cut to 60 characters and harmless for a terminal."""
    if text is None:
        return "no value"
    return ascii(text if len(text) <= 60 else f"{text[:60]}…")


def repeated(changes: Collection[Change]) -> Iterator[int]:
    """Yield the position of each change with the host, kind and target of an earlier one."""
    keys: set[tuple[str, Kind, str]] = set()
    for number, change in enumerate(changes):
        key = (change.host, change.kind, change.target)
        if key in keys:
            yield number
        keys.add(key)
