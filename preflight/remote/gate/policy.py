"""Operator's rules for this host, /etc/preflight/gate.json, and the checks that its administrator has switched off."""

import os

from gate.answer import JOB_CONTEXTS
from gate.files import UntrustedError, is_number, read_json, read_trusted

PLACE = "etc/preflight/gate.json"
OFF = "etc/preflight/gate.off"
LIMIT = 256 * 1024  # bytes of gate.json
OFF_LIMIT = 64 * 1024
INSTALL = "preflight gate install"
FIELDS = {  # required fields and their types; "number" is seconds
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
    """Rules of gate.json, with the names of `FIELDS` and `EXPECTED`; `reserved` and `free` as [(low, high)]."""

    def __init__(self, content, switched_off):
        for name in FIELDS:
            setattr(self, name, content[name])
        for name in EXPECTED:
            setattr(self, name, content["expect"][name])
        self.reserved, self.free = ports(self.reserved), ports(self.free)
        self.off = self.off + switched_off

    def opens(self, context):
        """Return whether a job may run with an unknown outcome."""
        return self.unknown.get(context, "closed" if context in JOB_CONTEXTS else "open") == "open"

    def leaves_out(self, check):
        return matches(check, self.off)

    def closes(self, check):
        """Return whether this check may close the gate; others are recorded only."""
        return (not self.required or matches(check, self.required)) and not matches(check, self.optional)


def matches(check, words):
    """Return whether one of the ids, or of their prefixes, names the check."""
    return any(check.startswith(word) for word in words)


def load(root="/", owner=0):
    """Return (the policy, the reason why gate.off does not count or ""). Raise UntrustedError."""
    path = os.path.join(root, PLACE)
    content = read_json(path, LIMIT, owner)
    if content is None:
        raise UntrustedError("%s does not exist. Run %s" % (path, INSTALL))
    schema = content.get("schema")
    if schema != "preflight.gate/1":
        raise UntrustedError("%s has an unsupported version, %.40r. Run %s" % (path, schema, INSTALL))
    misfit = misfits(content, FIELDS) or misfits(content["expect"], EXPECTED)
    if misfit:
        raise UntrustedError("%s: %s is missing or has the wrong type. Run %s" % (path, misfit, INSTALL))
    trouble, switched_off = "", []
    try:
        switched_off = switches(read_trusted(os.path.join(root, OFF), OFF_LIMIT, owner) or b"")
    except UntrustedError as error:
        trouble = "%s, so it switches nothing off" % error
    try:
        return Policy(content, switched_off), trouble
    except ValueError as error:
        raise UntrustedError("%s: %s. Run %s" % (path, error, INSTALL)) from None


def misfits(content, kinds):
    """Return the first name with a value of another kind, "" if there is none."""
    return next((name for name, kind in kinds.items() if not fits(content.get(name), kind)), "")


def fits(value, kind):
    if kind == "number":
        return is_number(value)
    if isinstance(kind, list):
        return isinstance(value, list) and all(fits(item, kind[0]) for item in value)
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    return type(value) is kind


def switches(data):
    """Return the words of gate.off, one a line."""
    lines = data.decode("utf-8", "replace").splitlines()
    return [word for word in (line.partition("#")[0].strip().upper() for line in lines) if word]


def ports(text):
    """Return the ranges of a text: "60000-60031,29500" → [(60000, 60031), (29500, 29500)]. Raise ValueError."""
    ranges = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        low, _, high = part.partition("-")
        high = high or low
        if not (low.isdecimal() and high.isdecimal() and len(part) < 12 and int(low) <= int(high) < 65536):
            raise ValueError("%.40r is not a port range" % part)
        ranges.append((int(low), int(high)))
    return ranges
