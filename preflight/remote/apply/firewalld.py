"""firewalld: our rich rules in a zone, at run time and permanently.

Both are made by firewalld itself, which writes a zone's file from its memory: a rule that it has not heard of is lost
with the next permanent change of anybody. It is never reloaded or restarted: docker's chains would be lost.
"""

import os
import re
from xml.etree import ElementTree

from apply.files import partial_path, read_file, remove_partial, sync_directory, write_file
from apply.kinds import Kind, after_alone
from apply.tools import GoneError, StepError, call, must

PRIORITY = "-29517"  # how a rich rule says that it is ours, as it has no comment
RULE = re.compile(
    r'rule priority="%s" family="ipv[46]" source address="[0-9a-fA-F.:]+(?:/[0-9]+)?" port port="[0-9-]+" '
    r'protocol="tcp" accept$' % PRIORITY
)
# The same form with its words sorted; nothing else of our priority is ours.
FORM_SORTED = re.compile(
    r"accept address=[0-9a-fA-F.:]+(?:/[0-9]+)? family=ipv[46] port port=[0-9-]+ priority=%s protocol=tcp rule source$"
    % PRIORITY
)
ORDER = ("rule", "priority=", "family=", "source", "address=", "port", "port=", "protocol=", "accept")
ZONE_FILE = "/etc/firewalld/zones/{}.xml"
BACKUP = ZONE_FILE + ".old"  # firewalld's copy of the file as it was before its last change
NOT_RUNNING = 252  # how firewall-cmd ends then
NO_SUCH_ZONE = 112
ROOM = 256 << 10  # bytes, more than a zone's file and its copy take


def zone_option(target):
    if not re.match(r"[\w-]{1,40}$", target):
        raise StepError("%r is no name of a zone" % target)
    return "--zone=" + target


def is_ours(rule):
    """Whether a rich rule is one that our writer makes, in whatever order its words are."""
    return FORM_SORTED.match(one_rule(rule))


def ours(text):
    return "\n".join(filter(is_ours, text.splitlines())) or None


def ask(*words):
    """What firewall-cmd prints, None where firewalld does not run."""
    code, text, err = call("firewall-cmd", *words)
    if code == NO_SUCH_ZONE:
        raise GoneError("firewalld has no such zone: %s" % err.strip()[:500])
    if code and code != NOT_RUNNING:
        raise StepError("firewall-cmd %s failed: %s" % (" ".join(words), err.strip()[:500]))
    return None if code else text


# At run time.


def read_rules(target):
    """None also where firewalld does not run: then there are no zones."""
    return ours(ask(zone_option(target), "--list-rich-rules") or "")


def write_rules(target, value):
    change_rules(target, read_rules(target), value, "firewall-cmd")


def change_rules(target, there, value, *program):
    """The new ones in, then the old ones out, all in one call each: a call takes a fifth of a second."""
    wanted = (value or "").splitlines()
    for rule in wanted:
        if not RULE.match(rule):
            raise StepError("%r is no rich rule of ours" % rule)
    more = ["--add-rich-rule=" + rule for rule in wanted if one_rule(rule) not in same_rules(there)]
    less = [
        "--remove-rich-rule=" + rule for rule in (there or "").splitlines() if one_rule(rule) not in same_rules(value)
    ]
    for options in filter(None, (more, less)):
        must(*program, zone_option(target), *options)


def one_rule(text):
    return " ".join(sorted(text.replace('"', "").split()))


def same_rules(value):
    """All of our rules accept, so their order means nothing, nor does that of their attributes."""
    return sorted(map(one_rule, (value or "").splitlines()))


# Permanently.


def read_permanent(target):
    """What the next start brings: our rules in the zone's file. One that firewalld brought along has none of them."""
    zone_option(target)
    path = ZONE_FILE.format(target)
    if not os.path.exists(path):
        return None
    try:
        zone = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        message = "%s is not whole (%s); %s.old may be: put it right by hand"
        raise StepError(message % (path, error, path)) from None
    return "\n".join(filter(is_ours, map(rich, zone.iter("rule")))) or None


def rich(rule):
    """A rule of a zone's file in the words of a rich rule; one of ours as firewall-cmd has it."""
    words = []
    for part in rule.iter():
        words += [part.tag] + ['%s="%s"' % pair for pair in part.attrib.items()]
    return " ".join(sorted(words, key=place))


def place(word):
    name, equals, _ = word.partition("=")
    return ORDER.index(name + equals) if name + equals in ORDER else len(ORDER)


def write_permanent(target, value):
    """By firewalld, so that its memory and the file agree whenever this is cut off. Its copy of the file before is put
    back: who made it wants the one before his own last change."""
    path, backup = ZONE_FILE.format(target), BACKUP.format(target)
    program = who_writes(target, path)
    there = ours(must(*program, zone_option(target), "--list-rich-rules"))
    try_to_write(path)
    copy = read_file(backup)
    try:
        change_rules(target, there, value, *program)
    finally:
        if read_file(backup) != copy:
            write_file(backup, copy)
    with open(path, "rb") as file:
        os.fsync(file.fileno())  # firewalld does not
    sync_directory(os.path.dirname(path))


def who_writes(target, path):
    """What makes a permanent change: firewalld, or where it does not run, its program that edits the files."""
    known = ask("--permanent", "--path-zone=" + target)
    if known is None:
        return ("firewall-offline-cmd",)
    if os.path.exists(path) and known.strip() != path:
        message = "firewalld has not read %s yet and would overwrite it with %s; let it: firewall-cmd --reload"
        raise StepError(message % (path, known.strip()))
    return ("firewall-cmd", "--permanent")


def try_to_write(path):
    """firewalld empties a file before it writes it, and goes on remembering what it could not write. So a full disk, or
    one that is read-only, has to be met before."""
    try:
        with open(partial_path(path), "wb") as file:
            file.write(b" " * ROOM)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StepError("%s cannot be written: %s" % (path, error.strerror or error)) from None
    finally:
        remove_partial(path)


KINDS = {
    "firewalld-rules": Kind(read_rules, write_rules, same_rules, lines=True, merge=after_alone),
    "firewalld-permanent": Kind(read_permanent, write_permanent, same_rules, lines=True, rewrites=(ZONE_FILE, BACKUP)),
}
