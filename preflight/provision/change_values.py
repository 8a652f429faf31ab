"""Values of changes, as strict as an inventory's: ports, addresses, our firewall rules, a chain as its tool lists it.
Pure."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface, ip_network

from preflight.model.ports import PortSet
from preflight.rules.sysctl.load_order import LONGEST

CHAIN = re.compile(r"(?:ip|ip6|inet) [A-Za-z_][\w./-]{0,127} [A-Za-z_][\w./-]{0,127}", re.ASCII)
LONGEST_LIST = 1 << 19  # characters; every second port of 65,536, written singly, has 0.19 million
_MOST_LINES = 5000  # of rules in one place; enough for 4,096 hosts without a network in common
_PORTS = r"[0-9]{1,5}(?:[-:][0-9]{1,5})?"
ADDRESS = r"[0-9a-fA-F.:]{2,45}(?:/[0-9]{1,3})?"

# A rule of ours as each tool prints it; groups: addresses, ports.
NFT_RULE = re.compile(
    r"ip6? saddr (?P<addresses>\{ [0-9a-fA-F.:/, ]+ \}|[0-9a-fA-F.:/]+)"
    r" tcp dport (?P<ports>\{ [0-9, -]+ \}|[0-9-]+)"
    r'(?: counter(?: packets [0-9]+ bytes [0-9]+)?)? accept(?: comment "preflight")?'
)
IPTABLES_RULE = re.compile(
    rf"-s (?P<addresses>{ADDRESS}) -p tcp -m multiport --dports (?P<ports>[0-9:,]+)"
    r' -m comment --comment (?:preflight|"preflight") -j ACCEPT'
)
FIREWALLD_RULE = re.compile(
    rf'rule priority="-29517" family="ipv[46]" source address="(?P<addresses>{ADDRESS})"'
    r' port port="(?P<ports>[0-9-]+)" protocol="tcp" accept'
)
UFW_RULE = re.compile(rf"allow tcp (?P<ports>[0-9:,]+) from (?P<addresses>{ADDRESS})")


# Values.


def is_port_list(text: str) -> bool:
    try:
        PortSet.parse(text)
    except ValueError:
        return False
    return True


def is_ports(text: str) -> bool:
    return len(text) <= LONGEST and is_port_list(text)


def keeps_ports(before: str | None, after: str) -> bool:
    """Return whether `after` reserves every port that `before` does; False for a `before` longer than any kernel's."""
    text = before or ""
    return len(text) <= LONGEST_LIST and is_port_list(text) and PortSet.parse(text) <= PortSet.parse(after)


def is_interface(text: str) -> bool:
    """Return whether `text` is an address with its prefix, as the inventory takes it for a device."""
    try:
        interface = IPv4Interface(text)
    except ValueError:
        return False
    network = interface.network
    ends = (network.network_address, network.broadcast_address) if network.prefixlen < 31 else ()
    return str(interface) == text and interface.ip not in ends and _is_unicast(interface.ip)


def is_address(text: str) -> bool:
    try:
        address = IPv4Address(text)
    except ValueError:
        return False
    return str(address) == text and _is_unicast(address)


def _is_unicast(ip: IPv4Address) -> bool:
    return not (ip.is_multicast or ip.is_loopback or ip.is_unspecified or ip.is_reserved)


def is_mtu(text: str) -> bool:
    return re.fullmatch(r"[1-9][0-9]{1,3}", text) is not None and 68 <= int(text) <= 9702


SETTINGS: Mapping[str, Callable[[str], bool]] = {
    "address": is_interface,
    "gateway": is_address,
    "netdetect": is_address,
    "mtu": is_mtu,
}


def is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return re.fullmatch(ADDRESS, text) is not None


def _is_port_range(text: str) -> bool:
    low, dash, high = text.replace(":", "-").partition("-")
    return re.fullmatch(_PORTS, text) is not None and int(low) <= int(high if dash else low) <= 65535


@lru_cache(8192)  # hosts have the same rules
def is_rule(line: str, form: re.Pattern[str]) -> bool:
    match = form.fullmatch(line)
    if match is None:
        return False
    addresses, ports = (_elements(match[name]) for name in ("addresses", "ports"))
    return all(map(is_network, addresses)) and all(map(_is_port_range, ports))


def _elements(text: str) -> list[str]:
    return [item.strip() for item in text.strip("{}").split(",")]


def rules_of(form: re.Pattern[str]) -> Callable[[str], bool]:
    def are_rules(text: str) -> bool:
        lines = text.splitlines()
        return 0 < len(lines) <= _MOST_LINES and all(is_rule(line, form) for line in lines)

    return are_rules


def _is_statement(line: str) -> bool:
    """Return whether a line for nft is a single rule with our comment."""
    bare = re.sub(r'"[^"]*"', "", line)
    words = re.findall(r"[\w-]+", bare)
    braces = [char for char in bare if char in "{}"]
    return (
        line.isprintable()
        and not set('";\\#$') & set(bare)
        and not {"include", "define", "redefine", "undefine"} & set(words)
        and braces == ["{", "}"] * (len(braces) // 2)
        and line.endswith(' comment "preflight"')
    )


def are_statements(text: str) -> bool:
    return all(map(_is_statement, text.splitlines()))


def is_nft_listing(text: str, target: str) -> bool:
    """Return whether `text` is exactly one nftables chain as `nft list chain` prints it."""
    family, table, chain = target.split(" ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    names = rf"table {family} {re.escape(table)} \{{", rf"\tchain {re.escape(chain)} \{{"
    if len(lines) < 5 or not all(map(re.fullmatch, names, lines)) or lines[-2:] != ["\t}", "}"]:
        return False
    first = 3 if lines[2].startswith('\t\tcomment "') else 2  # nft lists a chain's comment before its hook
    hook = r"\t\ttype [a-z]+ hook [a-z]+ (?:device \S+ )?priority [\w +-]+; policy (?:accept|drop);"
    return re.fullmatch(hook, lines[first]) is not None and _is_chain_body(
        "\n".join(lines[2:first] + lines[first + 1 : -2])
    )


def _is_chain_body(text: str) -> bool:
    bare = re.sub(r'"[^"\n]*"', "", text)
    depth = 0
    for char in re.sub(r"[^{}]", "", bare):
        depth += 1 if char == "{" else -1
        if depth < 0:
            return False
    forbidden = {"include", "define", "redefine", "undefine"} & set(re.findall(r"[\w-]+", bare))
    return depth == 0 and not forbidden and not set('";\\#$\0') & set(bare)


def is_iptables_listing(text: str) -> bool:
    first, *rules = text.splitlines() or [""]
    policy = re.fullmatch(r"-P INPUT (?:ACCEPT|DROP)", first) is not None
    return policy and all(line.startswith("-A INPUT ") and line.isprintable() for line in rules)


def one_of(*values: str) -> Callable[[str], bool]:
    return lambda text: text in values
