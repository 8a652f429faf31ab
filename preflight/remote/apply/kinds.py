"""Kinds of changes: a kind is a reader and a writer of text. MODULES maps each kind to its module."""

import importlib
import itertools
import re

from apply.tools import StepError

# Kind of change → module of this package, loaded for the first such change. preflight/model/change.py describes each
# kind's target and value.
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
    """Return a listing without the counts of its rules: packets, the used part of a quota, and the like."""
    return COUNTS.sub("", text)


class Chain:
    """Chain as its tool lists it; `present` equals any listing. Counts are ignored in the comparison."""

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
    """Do nothing, for kinds that read the live state itself."""


def after_alone(_found, _before, after):
    """Return `after`, for kinds in which the whole value is ours, as with tagged rules."""
    return after


def merge_rules(current, before, after):
    """Return the rules of `after`, and those of `current` that another program has made since `before`.

    A foreign rule ahead of every rule of `before` stays ahead. The other foreign rules come last, so that they shut
    nothing that `after` opens.
    """
    our_texts = {without_counts(rule).strip() for rule in before + after}

    def is_foreign(rule):
        return without_counts(rule).strip() not in our_texts

    ahead = list(itertools.takewhile(is_foreign, current))
    if len(ahead) == len(current):  # no rule of ours is left
        return after + ahead
    return ahead + after + list(filter(is_foreign, current[len(ahead) :]))


class ChangeKind:
    """Reader and writer of one kind of value: `read(target)` → text or None, `write(target, text or None)`.

    `same`      Function of a value. Two values are the same if their results are equal.
    `settle`    Seconds that a written value may take to show.
    `lines`     True if the writer changes the value line by line, so that an interrupted one leaves some of the lines.
    `rewrites`  Files that the tool behind the writer writes as well.
    `upsets`    Kinds that the writer may change besides, for the same target.
    `merge`     For the live firewall: (current, before, after) → the value to write so that `after` holds, whatever
                other rules there are.
    `load`      `load(target)` makes the live firewall agree with files that the reader reads. It raises on failure.
    """

    def __init__(self, read, write, same=same_text, **more):
        self.read, self.write, self.same = read, write, same
        self.settle, self.lines = more.pop("settle", 0), more.pop("lines", False)
        self.rewrites, self.upsets = more.pop("rewrites", ()), more.pop("upsets", ())
        self.merge, self.load = more.pop("merge", None), more.pop("load", nothing)
        if more:
            raise TypeError("a kind has no %s" % ", ".join(more))

    def aim(self, current, change):
        """Return the value that a forced change has to write over `current`."""
        return self.merge(current, change["before"], change["after"]) if self.merge else change["after"]

    def others(self, target):
        """Return the values that the writer may change besides, as they are now: [[kind, target, value], …]."""
        places = [("file", path.format(target)) for path in self.rewrites] + [(name, target) for name in self.upsets]
        return [[name, place, value_of(name, place)] for name, place in places]


def kind_of(name):
    return importlib.import_module("apply." + MODULES[name]).KINDS[name]


def value_of(name, target):
    """Return the value of a target. None also means that it cannot be read: then there is nothing to put back."""
    try:
        return kind_of(name).read(target)
    except (StepError, OSError):
        return None
