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


COUNTS = re.compile(r"packets \d+ bytes \d+| used \d+ \w*bytes\b| last used \w+")


def without_counts(text):
    """Return a listing without what its rules have counted: packets, the part of a quota that is used, and the like."""
    return COUNTS.sub("", text)


class Chain:
    """A chain as its tool lists it; `present` stands for any. Two are the same but for what they have counted."""

    def __init__(self, listing):
        self.listing = without_counts(listing)

    def __eq__(self, other):
        if not isinstance(other, Chain):
            return False
        return "present" in (self.listing, other.listing) or self.listing == other.listing

    __hash__ = None


def same_chain(value):
    return None if value is None else Chain(value)


def nothing(_target):
    """Do nothing: what such a kind's reader reads is the live state itself."""


def after_alone(_found, _before, after):
    """Return what a kind writes whose value is ours alone, as tagged rules are."""
    return after


def merge_rules(found, before, after):
    """Return the rules of a chain that are `after`, and those of `found` that somebody else has made since `before`.

    What stands ahead of every rule of `before` stays ahead. The rest comes last, so that it shuts nothing that `after`
    opens.
    """
    known = {without_counts(rule).strip() for rule in before + after}
    others = [number for number, rule in enumerate(found) if without_counts(rule).strip() not in known]
    ours = [number for number in range(len(found)) if number not in others]
    first = [found[number] for number in others if ours and number < ours[0]]
    return first + after + [found[number] for number in others if not ours or number > ours[0]]


class Kind:
    """`read(target)` → text or None, `write(target, text or None)`. Two values are the same where `same` makes them
    equal. `settle`: seconds that a written value may take to show. `lines`: the value is a set of lines that the writer
    changes one by one, so that one that was cut off leaves some of them. `rewrites`: files that the tool behind the
    writer writes as well; `upsets`: kinds of which the writer may change the same target's value as well. `merge`: of
    the live firewall, (found, before, after) → what is to be written so that `after` holds, whatever else is there.
    `load(target)`: makes the live firewall what is read, where a reader reads files; it raises where that fails."""

    def __init__(self, read, write, same=same_text, **more):
        self.read, self.write, self.same = read, write, same
        self.settle, self.lines = more.pop("settle", 0), more.pop("lines", False)
        self.rewrites, self.upsets = more.pop("rewrites", ()), more.pop("upsets", ())
        self.merge, self.load = more.pop("merge", None), more.pop("load", nothing)
        if more:
            raise TypeError("a kind has no %s" % ", ".join(more))

    def aim(self, found, change):
        """Return what a change that is forced has to write where `found` is there."""
        return self.merge(found, change["before"], change["after"]) if self.merge else change["after"]

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
