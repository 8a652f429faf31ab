"""ufw's own files: /etc/ufw/ufw.conf, /etc/default/ufw, and user.rules with one `### tuple ###` line per rule."""

import re
from dataclasses import dataclass

from preflight.facts.types import Missing
from preflight.model.text import quote

TAG = "preflight"
# The form of preflight's rules, also in remote/apply/ufw.py. A rule with their comment in any other form is the site's.
_OURS = re.compile(r"allow tcp [0-9,:]{1,200} from [0-9a-fA-F.:/]{2,50}")
_ANYWHERE = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True)
class Rule:
    """A rule of user.rules.

    `text`: `allow tcp 29500,60000:60031 from 10.1.0.0/16`. It may also have `to A`, `source port P`, `on INTERFACE` and
    `out`.
    """

    text: str
    comment: str

    @property
    def ours(self) -> bool:
        return self.comment == TAG and _OURS.fullmatch(self.text) is not None


def enabled(text: str) -> bool | Missing:
    """Return whether ufw.conf switches the firewall on."""
    values = re.findall(r"^[ \t]{0,40}ENABLED[ \t]{0,40}=[ \t]{0,40}\"?(\w{1,10})", text, re.MULTILINE)
    return values[-1].lower() == "yes" if values else Missing("ufw.conf has no ENABLED setting")


def _default(text: str, key: str) -> str:
    values = re.findall(rf"^[ \t]{{0,40}}{key}[ \t]{{0,40}}=[ \t]{{0,40}}\"?(\w{{1,20}})", text, re.MULTILINE)
    return values[-1].lower() if values else ""


def policy(text: str) -> str:
    """Return the policy of /etc/default/ufw for packets without a rule: accept | drop."""
    return "accept" if _default(text, "DEFAULT_INPUT_POLICY") == "accept" else "drop"


def ipv6(text: str) -> bool:
    """Return whether /etc/default/ufw covers IPv6; it does by default."""
    return _default(text, "IPV6") != "no"


def _rule(words: list[str]) -> Rule | None:
    """Parse the words after `### tuple ###`.

    They are: action protocol ports to source-port from [apps] direction[_interface] [comment].
    """
    comment = ""
    if words and words[-1].startswith("comment="):
        try:
            comment = bytes.fromhex(words.pop().partition("=")[2]).decode("utf-8", "replace")
        except ValueError:
            return None
    if len(words) not in (7, 9):  # with application names there are two more words, and ports are in their usual place
        return None
    action, protocol, ports, destination, source_ports, source = words[:6]
    direction, _, interface = words[-1].partition("_")
    if not re.match(r"(route:)?(allow|deny|reject|limit)(_log(-all)?)?$", action):
        return None
    text = f"{action} {protocol} {ports} from {source}"
    text += f" to {destination}" if destination not in _ANYWHERE else ""
    text += f" source port {source_ports}" if source_ports != "any" else ""
    text += f" on {interface}" if interface else ""
    text += " out" if direction == "out" else ""
    return Rule(text, comment)


def rules(text: str) -> tuple[Rule, ...] | Missing:
    """Return the rules of user.rules or user6.rules, in order."""
    rules_ = []
    for line in text.splitlines():
        if line.startswith("### tuple ###"):
            rule = _rule(line.removeprefix("### tuple ###").split())
            if rule is None:
                return Missing(f"ufw: {quote(line)} is not recognized")
            rules_.append(rule)
    return tuple(rules_)
