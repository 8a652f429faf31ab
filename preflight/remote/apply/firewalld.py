"""firewalld: our rich rules in a zone, at run time and permanently.

firewalld makes both changes itself. It writes a zone's file from its memory, so a rule that it does not know is lost
with any later permanent change. It is never reloaded or restarted: docker's chains would be lost.
"""

import os
import re
from xml.etree import ElementTree

from apply.files import partial_path, read_file, remove_partial, sync_directory, write_file
from apply.kinds import ChangeKind, after_alone
from apply.tools import GoneError, StepError, call, must

PRIORITY = "-29517"  # marks a rich rule as ours, as it has no comment
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
NOT_RUNNING = 252  # exit code of firewall-cmd
NO_SUCH_ZONE = 112
ROOM = 256 << 10  # bytes, more than a zone's file and its copy take


def zone_option(target):
    if not re.match(r"[\w-]{1,40}$", target):
        raise StepError("%r is not a zone name" % target)
    return "--zone=" + target


def is_ours(rule):
    """Return whether a rich rule has the form that our writer makes, with its words in any order."""
    return FORM_SORTED.match(one_rule(rule))


def ours(text):
    return "\n".join(filter(is_ours, text.splitlines())) or None


def ask(*words):
    """Return the output of firewall-cmd, None where firewalld does not run."""
    code, text, err = call("firewall-cmd", *words)
    if code == NO_SUCH_ZONE:
        raise GoneError("firewalld has no zone %s" % err.strip()[:500])
    if code and code != NOT_RUNNING:
        raise StepError("firewall-cmd %s failed: %s" % (" ".join(words), err.strip()[:500]))
    return None if code else text


# At run time.


def read_rules(target):
    """Return our rules in a zone. None also means that firewalld does not run: then there are no zones."""
    return ours(ask(zone_option(target), "--list-rich-rules") or "")


def write_rules(target, value):
    change_rules(target, read_rules(target), value, "firewall-cmd")


def change_rules(target, present, value, *program):
    """Add the new rules, then remove the old ones, all in one call each: a call takes a fifth of a second."""
    wanted_rules = (value or "").splitlines()
    for rule in wanted_rules:
        if not RULE.match(rule):
            raise StepError("%r is not a rich rule of preflight" % rule)
    additions = ["--add-rich-rule=" + rule for rule in wanted_rules if one_rule(rule) not in same_rules(present)]
    removals = [
        "--remove-rich-rule=" + rule for rule in (present or "").splitlines() if one_rule(rule) not in same_rules(value)
    ]
    for options in filter(None, (additions, removals)):
        must(*program, zone_option(target), *options)


def one_rule(text):
    return " ".join(sorted(text.replace('"', "").split()))


def same_rules(value):
    """Return the rules in a comparable form. All of our rules accept, so neither their order nor that of their
    attributes matters."""
    return sorted(map(one_rule, (value or "").splitlines()))


# Permanently.


def read_permanent(target):
    """Return our rules in the zone's file, which the next start loads. A zone file shipped with firewalld has none of
    them."""
    zone_option(target)
    path = ZONE_FILE.format(target)
    if not os.path.exists(path):
        return None
    try:
        zone = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        message = "%s is damaged (%s). Repair it manually, for example from %s.old"
        raise StepError(message % (path, error, path)) from None
    return "\n".join(filter(is_ours, map(rich, zone.iter("rule")))) or None


def rich(rule):
    """Return a rule of a zone's file in the words of a rich rule; one of ours as firewall-cmd prints it."""
    words = []
    for part in rule.iter():
        words += [part.tag] + ['%s="%s"' % pair for pair in part.attrib.items()]
    return " ".join(sorted(words, key=place))


def place(word):
    name, equals, _ = word.partition("=")
    return ORDER.index(name + equals) if name + equals in ORDER else len(ORDER)


def write_permanent(target, value):
    """Change the rules through firewalld, so that its memory and the file agree whenever this is cut off. Restore its
    backup of the file: the person who made it wants the version before their own last change."""
    path, backup = ZONE_FILE.format(target), BACKUP.format(target)
    program = permanent_program(target, path)
    rules = ours(must(*program, zone_option(target), "--list-rich-rules"))
    try_to_write(path)
    copy = read_file(backup)
    try:
        change_rules(target, rules, value, *program)
    finally:
        if read_file(backup) != copy:
            write_file(backup, copy)
    with open(path, "rb") as file:
        os.fsync(file.fileno())  # firewalld does not
    sync_directory(os.path.dirname(path))


def permanent_program(target, path):
    """Return the program that makes a permanent change: firewalld, or the program that edits its files where it does
    not run."""
    zone_path = ask("--permanent", "--path-zone=" + target)
    if zone_path is None:
        return ("firewall-offline-cmd",)
    if os.path.exists(path) and zone_path.strip() != path:
        message = "firewalld has not loaded %s yet and would overwrite it with %s. Load it with firewall-cmd --reload"
        raise StepError(message % (path, zone_path.strip()))
    return ("firewall-cmd", "--permanent")


def try_to_write(path):
    """Raise StepError where the disk is full or read-only. This must be known before: firewalld empties a file before
    it writes it, and keeps rules in memory that it could not write."""
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
    "firewalld-rules": ChangeKind(read_rules, write_rules, same_rules, lines=True, merge=after_alone),
    "firewalld-permanent": ChangeKind(
        read_permanent, write_permanent, same_rules, lines=True, rewrites=(ZONE_FILE, BACKUP)
    ),
}
