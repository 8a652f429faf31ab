"""The operator's rules for this host: /etc/preflight/gate.json, and what its administrator has switched off."""

import os

from gate.answer import JOB_CONTEXTS
from gate.files import NotBelieved, believed, is_number, parsed

PLACE = "etc/preflight/gate.json"
OFF = "etc/preflight/gate.off"
LIMIT = 256 * 1024  # bytes of gate.json
OFF_LIMIT = 64 * 1024
INSTALL = "preflight gate install"
FIELDS = {  # what has to be there, as what; "number" is seconds
    "host": str,
    "config": str,
    "max_age": "number",
    "probe_max_age": "number",
    "need_probe": bool,
    "required": [str],
    "optional": [str],
    "off": [str],
    "unknown": {str: str},
    "expect": dict,
}
EXPECTED = {
    "product": str,
    "reserved": str,
    "free": str,
    "devices": [int],
    "addresses": {str: str},
    "nic": str,
}


class Policy:
    """gate.json with the names of `FIELDS` and `EXPECTED`; `reserved` and `free` as [(low, high)]."""

    def __init__(self, found, switched_off):
        for name in FIELDS:
            setattr(self, name, found[name])
        for name in EXPECTED:
            setattr(self, name, found["expect"][name])
        self.reserved, self.free = ports(self.reserved), ports(self.free)
        self.off = self.off + switched_off

    def opens(self, context):
        """Whether a job may run where nobody knows."""
        return self.unknown.get(context, "closed" if context in JOB_CONTEXTS else "open") == "open"

    def leaves_out(self, check):
        return named(check, self.off)

    def closes(self, check):
        """Whether this check may close the gate; others are recorded only."""
        return (not self.required or named(check, self.required)) and not named(check, self.optional)


def named(check, words):
    """Whether the check is one of those that ids or prefixes of ids name."""
    return any(check.startswith(word) for word in words)


def load(root="/", owner=0):
    """(the policy, why gate.off does not count or ""). Raises NotBelieved."""
    path = os.path.join(root, PLACE)
    found = parsed(path, LIMIT, owner)
    if found is None:
        raise NotBelieved("there is no %s; %s" % (path, INSTALL))
    schema = found.get("schema")
    if schema != "preflight.gate/1":
        raise NotBelieved("%s is of another version, %.40r; %s" % (path, schema, INSTALL))
    wrong = misfits(found, FIELDS) or misfits(found["expect"], EXPECTED)
    if wrong:
        raise NotBelieved("%s: %s is missing or of the wrong kind; %s" % (path, wrong, INSTALL))
    trouble, switched_off = "", []
    try:
        switched_off = switches(believed(os.path.join(root, OFF), OFF_LIMIT, owner) or b"")
    except NotBelieved as error:
        trouble = "%s: nothing is switched off by it" % error
    try:
        return Policy(found, switched_off), trouble
    except ValueError as error:
        raise NotBelieved("%s: %s; %s" % (path, error, INSTALL)) from None


def misfits(found, kinds):
    """The first name whose value is not of its kind, "" where all are."""
    return next((name for name, kind in kinds.items() if not fits(found.get(name), kind)), "")


def fits(value, kind):
    if kind == "number":
        return is_number(value)
    if isinstance(kind, list):
        return isinstance(value, list) and all(fits(one, kind[0]) for one in value)
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return type(value) is kind


def switches(data):
    """The words of gate.off, one a line."""
    lines = data.decode("utf-8", "replace").splitlines()
    return [word for word in (line.partition("#")[0].strip().upper() for line in lines) if word]


def ports(text):
    """ "60000-60031,29500" as [(60000, 60031), (29500, 29500)]. Raises ValueError."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        low, _, high = part.partition("-")
        high = high or low
        if not (low.isdecimal() and high.isdecimal() and len(part) < 12 and int(low) <= int(high) < 65536):
            raise ValueError("%.40r is no range of ports" % part)
        found.append((int(low), int(high)))
    return found
