"""Plain nftables: our tagged rules in a base chain, and a base chain as a whole."""

import re

from apply.allowed import is_nft_chain, nft_head
from apply.kinds import ChangeKind, after_alone, merge_rules, same_chain
from apply.tools import TAG, GoneError, StepError, call, must

OUR_COMMENT = ' comment "%s"' % TAG
# Form of our rules; any other rule with our comment is foreign.
RULE = re.compile(
    r"ip6? saddr (?:\{ [0-9a-fA-F.:/, ]+ \}|[0-9a-fA-F.:/]+) tcp dport (?:\{ [0-9, -]+ \}|[0-9-]+) accept%s$"
    % OUR_COMMENT
)


# nft's message for a missing chain; a missing library of nft gives a part of it.
NO_SUCH_CHAIN = re.compile(r"Error: (?:Could not process rule: )?No such file or directory")


def chain_words(target):
    words = target.split(" ")
    if (
        len(words) != 3
        or words[0] not in ("ip", "ip6", "inet")
        or not all(re.match(r"[\w./-]+$", word) for word in words)
    ):
        raise StepError("%r is not FAMILY TABLE CHAIN" % target)
    return words


def our_handles(target):
    """Return [(rule, handle)] of our rules in the chain. Raise GoneError where there is no such chain."""
    listing = list_chain(target, "-a")
    if listing is None:
        raise GoneError("there is no chain %s" % target)
    handles = []
    for line in listing.splitlines():
        rule, _, handle = line.strip().rpartition(" # handle ")
        if RULE.match(rule):
            handles.append((rule, handle))
    return handles


def read_nft_rules(target):
    return "\n".join(rule for rule, _ in our_handles(target)) or None


def write_nft_rules(target, value):
    """Delete our old rules and insert the new ones at the top, in one transaction: nothing is ever half open."""
    chain = " ".join(chain_words(target))
    script = ["delete rule %s handle %s" % (chain, handle) for _, handle in our_handles(target)]
    for rule in reversed((value or "").splitlines()):
        if not rule.endswith(OUR_COMMENT):
            rule += OUR_COMMENT
        if not RULE.match(rule):
            raise StepError("%r is not a rule of preflight" % rule)
        script.append("insert rule %s %s" % (chain, rule))
    must("nft", "-f", "-", stdin="\n".join(script) + "\n")


def same_rules(value):
    """Return the rules in a comparable form. All of our rules accept, so their order does not matter, nor does that in
    a set. `{ a }` equals `a`, and `a/32` equals `a`: nft and ufw print the shorter form."""
    rules = []
    for line in (value or "").splitlines():
        rule = " ".join(line.split())
        rule = rule[: -len(OUR_COMMENT)] if rule.endswith(OUR_COMMENT) else rule
        rule = re.sub(r"(\.\d+)/32\b|(:[0-9a-f]*)/128\b", r"\1\2", rule)
        rules.append(re.sub(r"\{ ([^{}]+) \}", lambda match: ", ".join(sorted(match.group(1).split(", "))), rule))
    return sorted(filter(None, rules))


def read_nft_input(target):
    """Return the chain as nft lists it. The listing also restores it."""
    return list_chain(target)


def list_chain(target, *options):
    """Return nft's listing of the chain; None where there is no such chain."""
    code, out, err = call("nft", *options, "list", "chain", *chain_words(target))
    if code and not NO_SUCH_CHAIN.search(err):
        raise StepError("nft list chain %s failed: %s" % (target, err.strip()[:500]))
    return None if code else out


def write_nft_input(target, value):
    """Replace the chain in one transaction, even if a chain of that name exists."""
    if value == "present":
        raise StepError("the previous chain %s is unknown. Reload the host's own rules" % target)
    chain = " ".join(chain_words(target))
    listing = read_nft_input(target)
    if listing and not value and not is_nft_chain(listing, target):
        raise StepError("chain %s is not deleted, because preflight could not restore all parts of it" % target)
    delete = "flush chain %s\ndelete chain %s\n" % (chain, chain)
    must("nft", "-f", "-", stdin=(delete if listing else "") + (value or ""))


def merge_nft_input(current, before, after):
    """Return `after` merged into the chain that is there. A listed chain ends with two lines that close it and its
    table."""
    if current is None or after in (None, "present"):
        return after
    chains = [(value or "").splitlines() for value in (current, before, after)]
    head, tail = chains[-1][: nft_head(chains[-1])], chains[-1][-2:]
    return "\n".join(head + merge_rules(*(lines[nft_head(lines) : -2] for lines in chains)) + tail) + "\n"


KINDS = {
    "nft-rules": ChangeKind(read_nft_rules, write_nft_rules, same_rules, merge=after_alone),
    "nft-input": ChangeKind(read_nft_input, write_nft_input, same_chain, merge=merge_nft_input),
}
