"""What can be changed: a kind is a reader and a writer of text. Which module knows which kind."""

import importlib
import re

from apply.tools import StepError

# Kind of change → module of this package, loaded when such a change is there. What each kind's target and value are
# stands in preflight/model/change.py.
MODULES = {
    "file": "files",
    "program": "files",
    "sysctl": "sysctl",
    "nft-rules": "nftables",
    "nft-input": "nftables",
    "iptables-rules": "iptables",
    "iptables-input": "iptables",
    "firewalld-rules": "firewalld",
    "firewalld-permanent": "firewalld",
    "service": "services",
    "service-at-boot": "services",
    "ufw-rules": "ufw",
    "ufw-enabled": "ufw",
    "device-address": "hccn",
    "device-gateway": "hccn",
    "device-detect": "hccn",
    "device-mtu": "hccn",
    "device-saved": "hccn",
    "device-recovery": "hccn",
}


def same_text(value):
    return value


class Chain:
    """A chain as its tool lists it; `present` stands for any. Two are the same but for what they have counted."""

    def __init__(self, listing):
        self.listing = re.sub(r"packets \d+ bytes \d+", "", listing)

    def __eq__(self, other):
        if not isinstance(other, Chain):
            return False
        return "present" in (self.listing, other.listing) or self.listing == other.listing

    __hash__ = None


def same_chain(value):
    return None if value is None else Chain(value)


class Kind:
    """`read(target)` → text or None, `write(target, text or None)`. Two values are the same where `same` makes them
    equal. `settle`: seconds that a written value may take to show. `lines`: the value is a set of lines that the writer
    changes one by one, so that one that was cut off leaves some of them. `rewrites`: files that the tool behind the
    writer writes as well; `upsets`: kinds of which the writer may change the same target's value as well."""

    def __init__(self, read, write, same=same_text, settle=0, lines=False, rewrites=(), upsets=()):
        self.read, self.write, self.same = read, write, same
        self.settle, self.lines, self.rewrites, self.upsets = settle, lines, rewrites, upsets

    def others(self, target):
        """What the writer may change besides: [[kind, target, value], …] as it is now."""
        places = [("file", path.format(target)) for path in self.rewrites] + [(name, target) for name in self.upsets]
        return [[name, where, value_of(name, where)] for name, where in places]


def kind_of(name):
    return importlib.import_module("apply." + MODULES[name]).KINDS[name]


def value_of(name, target):
    """None also where it cannot be read: then there is nothing to put back."""
    try:
        return kind_of(name).read(target)
    except (StepError, OSError):
        return None
