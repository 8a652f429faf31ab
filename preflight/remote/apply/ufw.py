"""ufw: our tagged rules, and its on/off state. Both are read from its files and changed by ufw itself."""

import re

from apply.files import read_file
from apply.kinds import ChangeKind, after_alone
from apply.nftables import same_rules
from apply.tools import TAG, StepError, must

UFW_TUPLES = ("/etc/ufw/user.rules", "/etc/ufw/user6.rules")
UFW_TUPLE = re.compile(r"### tuple ### (\S+) (\S+) (\S+) (?:0\.0\.0\.0/0|::/0) any (\S+) in comment=(\S+)$")


# Form of our rules; any other rule with our comment is foreign.
RULE = re.compile(r"(allow) (tcp) ([0-9,:]+) from ([0-9a-fA-F.:/]+)$")


def read_ufw_rules(_):
    """Return our rules, as `allow tcp PORTS from CIDR`. ufw keeps a rule a line, with its comment in hexadecimal."""
    rules = []
    for path in UFW_TUPLES:
        for line in (read_file(path) or "").splitlines():
            match = UFW_TUPLE.match(line)
            if match and match.group(5) == TAG.encode().hex():
                rules.append("%s %s %s from %s" % match.groups()[:4])
    return "\n".join(filter(RULE.match, rules)) or None


def ufw_words(rule):
    """Return ufw's arguments for a rule `allow tcp PORTS from CIDR`."""
    match = RULE.match(rule)
    if not match:
        raise StepError("%r is not a rule like `allow tcp 60000:60031 from 10.0.0.0/8`" % rule)
    action, protocol, ports, source = match.groups()
    return [action, "proto", protocol, "from", source, "to", "any", "port", ports]


def write_ufw_rules(target, value):
    old_rules, new_rules = same_rules(read_ufw_rules(target)), same_rules(value)
    for rule in new_rules:
        if rule not in old_rules:
            output = must("ufw", "prepend", *ufw_words(rule), "comment", TAG)
            if "Skipping" in output:  # ufw reports success
                raise StepError(
                    "ufw has another rule like %r. Find the rule with ufw status numbered, then delete it" % rule
                )
    for rule in old_rules:
        if rule not in new_rules:
            must("ufw", "delete", *ufw_words(rule))


def read_ufw_enabled(_):
    text = read_file("/etc/ufw/ufw.conf")
    if text is None:
        raise StepError("ufw is not installed")
    values = re.findall(r"^[ \t]*ENABLED[ \t]*=[ \t]*\"?(\w+)", text, re.MULTILINE)
    return "yes" if values and values[-1].lower() == "yes" else "no"


def write_ufw_enabled(_, value):
    must("ufw", *(["--force", "enable"] if value == "yes" else ["disable"]))


# ufw writes its files first. If it fails or is killed after that, the live rules are still the old ones.


def load_rules(_):
    """Make the live rules those of ufw's files, each family in one transaction, as ufw itself does."""
    if read_ufw_enabled(_) == "no":
        return
    must("iptables-restore", "-w", "--noflush", stdin=read_file(UFW_TUPLES[0]) or "")
    if uses_ipv6():
        must("ip6tables-restore", "-w", "--noflush", stdin=read_file(UFW_TUPLES[1]) or "")


def uses_ipv6():
    return re.search(r"^[ \t]*IPV6[ \t]*=[ \t]*\"?yes", read_file("/etc/default/ufw") or "", re.MULTILINE) is not None


def load_enabled(_):
    if read_ufw_enabled(_) == "no":
        must("ufw", "disable")


KINDS = {
    "ufw-rules": ChangeKind(
        read_ufw_rules,
        write_ufw_rules,
        same_rules,
        lines=True,
        rewrites=UFW_TUPLES,
        merge=after_alone,
        load=load_rules,
    ),
    "ufw-enabled": ChangeKind(
        read_ufw_enabled, write_ufw_enabled, rewrites=("/etc/ufw/ufw.conf",), merge=after_alone, load=load_enabled
    ),
}
