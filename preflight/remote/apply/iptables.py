"""iptables: our tagged rules in the chain INPUT, inserted and deleted one at a time, and that chain as a whole.

Other chains are never touched: a whole iptables-restore would lose or freeze rules that docker and kube-proxy write
meanwhile.
"""

import os
import re

from apply.kinds import ChangeKind, after_alone, merge_rules, same_chain
from apply.tools import ENVIRONMENT, TAG, StepError, must

PROGRAMS = ("iptables-nft", "ip6tables-nft", "iptables-legacy", "ip6tables-legacy")
# Form of our rules. iptables never gets any other, and any other rule with our comment is foreign.
RULE = re.compile(
    r"-s [0-9a-fA-F.:]+(?:/[0-9]+)? -p tcp -m multiport --dports [0-9,:]+ "
    r'-m comment --comment "?%s"? -j ACCEPT$' % TAG
)


def program(target):
    """Return the program's path: under its own name, or as plain `iptables` where that is the same variant (nft or
    legacy)."""
    if target not in PROGRAMS:
        raise StepError("%r is not one of %s" % (target, ", ".join(PROGRAMS)))
    plain, _, variant = target.partition("-")
    path = tool_path(plain)
    is_nft = path is not None and "nft" in os.path.basename(os.path.realpath(path))
    variant_path = tool_path(target) or (path if path and is_nft == (variant == "nft") else None)
    if variant_path is None:
        raise StepError("%s is not installed" % target)
    return variant_path


def tool_path(name):
    paths = [os.path.join(folder, name) for folder in ENVIRONMENT["PATH"].split(":") if folder]
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def words(line):
    """Return the words of a listed line. In quotes, iptables puts a backslash before quotes of both kinds and
    backslashes."""
    matches = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    return [plain or re.sub(r"\\(.)", r"\1", quoted) for quoted, plain in matches]


def listing(target):
    """Return the lines of `iptables -S INPUT`, the policy first."""
    text = must(program(target), "-w", "-S", "INPUT")
    return [line for line in text.splitlines() if line.startswith(("-P INPUT ", "-A INPUT "))]


def rules(target):
    return [line[len("-A INPUT ") :] for line in listing(target) if line.startswith("-A ")]


def read_rules(target):
    return "\n".join(filter(RULE.match, rules(target))) or None


def write_rules(target, value):
    """Insert the new rules at the top, then delete the old ones: at no time is less open than before."""
    present_rules, wanted_rules = same_rules(read_rules(target)), same_rules(value)
    path = program(target)
    for rule in (value or "").splitlines():
        if not RULE.match(rule):
            raise StepError("%r is not a rule of preflight" % rule)
    for rule in reversed((value or "").splitlines()):
        if one_rule(rule) not in present_rules:
            must(path, "-w", "-I", "INPUT", *words(rule))
    for rule in filter(RULE.match, rules(target)):
        if one_rule(rule) not in wanted_rules:
            must(path, "-w", "-D", "INPUT", *words(rule))


def one_rule(text):
    """Return a rule in one spelling: older programs quote the comment, and a single address may have its prefix or
    not."""
    return re.sub(r"^(-s [0-9a-fA-F.:]+)/(?:32|128) ", r"\1 ", " ".join(text.replace('"', "").split()))


def same_rules(value):
    """Return the rules in a comparable form. All of our rules accept, so their order does not matter."""
    return sorted(map(one_rule, (value or "").splitlines()))


def read_input(target):
    """Return the chain as iptables lists it, which also restores it; None where it lets everything in."""
    lines = listing(target)
    return None if lines == ["-P INPUT ACCEPT"] else "\n".join(lines)


def write_input(target, value):
    """Replace the chain INPUT alone by a listing, in one transaction: never half open. None lets everything in."""
    if value == "present":
        raise StepError("the previous INPUT chain of %s is unknown. Reload the host's own rules" % target)
    lines = (value or "-P INPUT ACCEPT").splitlines()
    policy = next((line.split()[2] for line in lines if line.startswith("-P ")), "ACCEPT")
    rules = [line for line in lines if line.startswith("-A ")]
    table = ["*filter", ":INPUT %s [0:0]" % policy, "-F INPUT", *rules, "COMMIT", ""]
    must(program(target) + "-restore", "-w", "--noflush", stdin="\n".join(table))


def merge_input(current, before, after):
    """Return `after` merged into the chain that is there, with the policy of `after`."""
    if after == "present":
        return after
    chains = [(value or "-P INPUT ACCEPT").splitlines() for value in (current, before, after)]
    merged_lines = chains[-1][:1] + merge_rules(*(lines[1:] for lines in chains))
    return None if merged_lines == ["-P INPUT ACCEPT"] else "\n".join(merged_lines)


KINDS = {
    "iptables-rules": ChangeKind(read_rules, write_rules, same_rules, lines=True, merge=after_alone),
    "iptables-input": ChangeKind(read_input, write_input, same_chain, merge=merge_input),
}
