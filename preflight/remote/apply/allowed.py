"""Allowed targets and values of each kind of change in a request.

The controller has checked the same before it sent the request, with the tables in preflight/provision/accept.py. These
tables hold for requests from any other sender.

Only requests are checked. A guardian and the recovery of a run write only values that this host has shown.
"""

import ipaddress
import re

from apply.tools import StepError

NAME = r"(?!\.)[A-Za-z0-9_.@+-]{1,200}"
# Files that the firewall is loaded from at boot.
FIREWALL_FILES = re.compile(
    r"/etc/nftables\.conf"
    r"|/etc/preflight/nftables\.nft"
    r"|/etc/(?:iptables|sysconfig)/(?:rules\.v[46]|ip6?tables)"
    r"|/etc/firewalld/zones/[A-Za-z0-9_-]{1,40}\.xml(?:\.old)?"
    r"|/etc/ufw/(?:user6?\.rules|ufw\.conf)"
)
# Files, with links resolved.
FILES = re.compile(
    r"/etc/sysctl\.conf"
    r"|(?:/etc|/run|/usr/local/lib)/sysctl\.d/" + NAME + r"\.conf"
    r"|/etc/tuned/(?:profiles/)?" + NAME + r"/tuned\.conf"
    r"|/etc/hosts"
    r"|/etc/security/limits\.d/90-preflight\.conf"
    r"|/etc/profile\.d/preflight-hccl\.sh"
    r"|/etc/preflight/gate\.json"
    r"|/etc/hccn\.conf"
    r"|" + FIREWALL_FILES.pattern
)
CHAIN = re.compile(r"(?:ip|ip6|inet) [A-Za-z_][A-Za-z0-9_./-]{0,127} [A-Za-z_][A-Za-z0-9_./-]{0,127}")
TABLES = re.compile(r"ip6?tables-(?:nft|legacy)")
ZONE = re.compile(r"[A-Za-z0-9_-]{1,40}")
UFW = re.compile(r"ufw")
DEVICE = re.compile(r"(?:0|[1-9][0-9]?)")
DEVICE_AND_KEYS = re.compile(r"(?:0|[1-9][0-9]?)(?: (?:address|gateway|netdetect|mtu)){1,4}")
# Kind → pattern of its whole target.
TARGETS = {
    "file": FILES,
    "program": re.compile(r"/usr/local/sbin/preflight-gate|/usr/local/lib/preflight/gate"),
    "sysctl": re.compile(r"net\.ipv4\.ip_local_reserved_ports"),
    "nft-rules": CHAIN,
    "nft-input": CHAIN,
    "iptables-rules": TABLES,
    "iptables-input": TABLES,
    "firewalld-rules": ZONE,
    "firewalld-permanent": ZONE,
    "service": re.compile(r"firewalld"),
    "service-at-boot": re.compile(r"firewalld|nftables|netfilter-persistent|ip6?tables"),
    "ufw-rules": UFW,
    "ufw-enabled": UFW,
    "device-address": DEVICE,
    "device-gateway": DEVICE,
    "device-detect": DEVICE,
    "device-mtu": DEVICE,
    "device-saved": DEVICE_AND_KEYS,
    "device-recovery": DEVICE_AND_KEYS,
}
FORBIDDEN_WORDS = {"include", "define", "redefine", "undefine"}  # of nft, where a statement begins


def refuse_strange(request):
    """Raise StepError for the first change of a request that this program is not for."""
    named_files = request.get("named", ())
    for phase in ("plain", "guarded", "kept"):
        for change in request.get(phase, ()):
            kind, target, after = change["kind"], change["target"], change["after"]
            is_named = kind in ("file", "program") and target in named_files
            if kind not in TARGETS or not (is_named or is_target(kind, target)):
                raise StepError("preflight never changes %s %r" % (kind, target[:80]))
            if after is not None and not is_value(kind, target, after):
                raise StepError("preflight sets no such value for %s %s: %r" % (kind, target, after[:80]))


def is_target(kind, target):
    return TARGETS[kind].fullmatch(target) is not None and ".." not in target.split("/")


def is_value(kind, target, value):
    if kind == "nft-input":
        return is_nft_chain(value, target)
    return VALUES[kind](value) if kind in VALUES else "\0" not in value


def is_one_of(*values):
    return lambda value: value in values


def is_port_list(value):
    return all(is_port_range(item) for item in value.rstrip(",").split(",")) if value else True


def is_port_range(item):
    match = re.match(r"([0-9]{1,5})(?:-([0-9]{1,5}))?$", item)
    return match is not None and int(match.group(1)) <= int(match.group(2) or match.group(1)) <= 65535


def is_nft_rules(value):
    """Return whether each line is one harmless statement; a rule ends with its line."""
    return all(is_harmless(line) and "{}" * line.count("{") == braces(line) for line in value.splitlines())


def is_nft_chain(value, target):
    """Return whether the text is the target's chain alone, as nft lists it."""
    if value == "present":
        return True
    family, table, chain = target.split(" ")
    lines = [line for line in value.splitlines() if not line.startswith("#")]
    if lines[:2] != ["table %s %s {" % (family, table), "\tchain %s {" % chain] or lines[-2:] != ["\t}", "}"]:
        return False
    hook = r"\t\ttype [a-z]+ hook [a-z]+ (?:device \S+ )?priority [\w +-]+; policy (?:accept|drop);"
    head = nft_head(lines)
    body = "\n".join(lines[2 : head - 1] + lines[head:-2])
    depth = [body[:at].count("{") - body[:at].count("}") for at, char in enumerate(body + "}") if char in "{}"]
    return re.fullmatch(hook, lines[head - 1]) is not None and is_harmless(body) and min(depth) >= 0


def nft_head(lines):
    """Return the number of lines before a listed chain's rules: table, chain, its comment if it has one, and its
    hook."""
    return 4 if re.match(r'\t\tcomment "', "".join(lines[2:3])) else 3


def is_harmless(text):
    """Return whether a text for nft has no second statement, comment or other file; quoted parts are only text."""
    bare = re.sub(r'"[^"\n]*"', "", text)
    return not FORBIDDEN_WORDS & set(re.findall(r"[\w-]+", bare)) and not set('";\\#$\0') & set(bare)


def braces(line):
    return re.sub(r"[^{}]", "", re.sub(r'"[^"]*"', "", line))


def is_iptables_chain(value):
    policy = r"-P INPUT (?:ACCEPT|DROP)"
    return value == "present" or all(
        line.isprintable() and (line.startswith("-A INPUT ") or re.fullmatch(policy, line))
        for line in value.splitlines()
    )


def is_interface(value):
    return value.count("/") == 1 and is_ip(value, ipaddress.IPv4Interface)


def is_address(value):
    return is_ip(value, ipaddress.IPv4Address)


def is_ip(value, type_):
    try:
        return str(type_(value)) == value
    except ValueError:
        return False


def is_mtu(value):
    return re.fullmatch(r"[1-9][0-9]{1,3}", value) is not None


# Kind → test of its values; the writers of other kinds check for themselves.
VALUES = {
    "sysctl": is_port_list,
    "nft-rules": is_nft_rules,
    "iptables-input": is_iptables_chain,
    "service": is_one_of("active", "inactive"),
    "service-at-boot": is_one_of("enabled", "disabled"),
    "ufw-enabled": is_one_of("yes", "no"),
    "device-address": is_interface,
    "device-gateway": is_address,
    "device-detect": is_address,
    "device-mtu": is_mtu,
}
