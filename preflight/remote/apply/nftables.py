"""Plain nftables: our tagged rules in a base chain, and a base chain as a whole."""

import re

from apply.kinds import Kind, same_chain
from apply.tools import TAG, StepError, call, must

OUR_COMMENT = ' comment "%s"' % TAG


def chain_words(target):
    words = target.split(" ")
    if len(words) != 3 or words[0] not in ("ip", "ip6", "inet") or not all(re.match(r"[\w./-]+$", w) for w in words):
        raise StepError("%r is not FAMILY TABLE CHAIN" % target)
    return words


def our_handles(target):
    """[(rule, handle)] of the rules in the chain that carry our comment."""
    listing = must("nft", "-a", "list", "chain", *chain_words(target))
    found = []
    for line in listing.splitlines():
        rule, _, handle = line.strip().rpartition(" # handle ")
        if rule.endswith(OUR_COMMENT):
            found.append((rule, handle))
    return found


def read_nft_rules(target):
    return "\n".join(rule for rule, _ in our_handles(target)) or None


def write_nft_rules(target, value):
    """Ours out, the new ones in at the top, in one transaction: nothing is ever half open."""
    chain = " ".join(chain_words(target))
    script = ["delete rule %s handle %s" % (chain, handle) for _, handle in our_handles(target)]
    for rule in reversed((value or "").splitlines()):
        if not rule.endswith(OUR_COMMENT):
            rule += OUR_COMMENT
        script.append("insert rule %s %s" % (chain, rule))
    must("nft", "-f", "-", stdin="\n".join(script) + "\n")


def same_rules(value):
    """All of our rules accept, so their order means nothing, nor does that in a set. `{ a }` is the same as `a`, and
    `a/32` as `a`: nft and ufw print the shorter."""
    rules = []
    for line in (value or "").splitlines():
        rule = " ".join(line.split())
        rule = rule[: -len(OUR_COMMENT)] if rule.endswith(OUR_COMMENT) else rule
        rule = re.sub(r"(\.\d+)/32\b|(:[0-9a-f]*)/128\b", r"\1\2", rule)
        rules.append(re.sub(r"\{ ([^{}]+) \}", lambda match: ", ".join(sorted(match.group(1).split(", "))), rule))
    return sorted(filter(None, rules))


def read_nft_input(target):
    """The chain as nft lists it: what puts it back."""
    code, out, err = call("nft", "list", "chain", *chain_words(target))
    if code and "No such file or directory" not in err:
        raise StepError("nft list chain %s failed: %s" % (target, err.strip()[:500]))
    return None if code else out


def write_nft_input(target, value):
    if value == "present":
        raise StepError("how chain %s looked is not known here; load the host's own rules again" % target)
    chain = " ".join(chain_words(target))
    must("nft", "-f", "-", stdin=value or "flush chain %s\ndelete chain %s\n" % (chain, chain))


KINDS = {
    "nft-rules": Kind(read_nft_rules, write_nft_rules, same_rules),
    "nft-input": Kind(read_nft_input, write_nft_input, same_chain),
}
