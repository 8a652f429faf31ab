"""Ansible's inventory: read as `ansible-inventory --list` prints it, {"_meta": {"hostvars": …}, "all": {"hosts": […]}},
and written as one that `ansible -i FILE` reads, {"all": {"hosts": {NAME: {…}}}}, which is read, too. Inventories in INI
or YAML are recognized and refused: what they say depends on ranges, templates, and files of variables beside them.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from preflight.hostlists import json_node, jump
from preflight.hostlists.json_node import Node
from preflight.hostlists.listed import Listed, ListedHost, Source, whole_number
from preflight.inventory.errors import InventoryError

DEVICES = "preflight_devices"  # a variable of ours, for what Ansible has no name for
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
_OLD = {"ansible_host": "ansible_ssh_host", "ansible_port": "ansible_ssh_port", "ansible_user": "ansible_ssh_user",
        "ansible_ssh_private_key_file": "ansible_private_key_file"}  # fmt: skip
_BOOLEANS = dict.fromkeys(("yes", "on", "1", "true", "t", "y"), True) | dict.fromkeys(
    ("no", "off", "0", "false", "f", "n"), False
)
_SECTION = re.compile(r"\[[A-Za-z_][\w.-]*(:(?:children|vars|hosts))?\]")
_OF_HOST = re.compile(r"\sansible_\w+\s*=")
_ASSIGNS = re.compile(r"[\w.-]+\s*=")
_YAML_KEY = re.compile(r"\s+(?:hosts|children|vars):")


def is_ini(lines: Sequence[str]) -> bool:
    """Return whether the lines are an inventory in INI: a host with a variable of Ansible's, or a group with a host."""
    if any(line.startswith("[[") for line in lines):  # TOML
        return False
    section, has_group, has_host = "", False, False
    for line in map(str.strip, lines):
        if _OF_HOST.search(line):
            return True
        if match := _SECTION.fullmatch(line):
            section, has_group = match[1] or "", True
        elif section != ":vars" and not line.startswith(";") and not _ASSIGNS.match(line):
            has_host = True
    return has_group and has_host


def is_yaml(lines: Sequence[str]) -> bool:
    """Return whether the lines are an inventory in YAML: a group, and below it its hosts, children or variables."""
    first, second, *others = (*lines[bool(lines) and lines[0] == "---" :], "", "")
    return first.endswith(":") and bool(_YAML_KEY.fullmatch(second)) and not others[0].lstrip().startswith("- ")


def refuse(source: Source, form: str) -> NoReturn:
    """Raise InventoryError with the command that turns the file into what is read."""
    file = "FILE" if source.name == "stdin" else shlex.quote(source.name)
    raise InventoryError(
        f"{source.name}: an Ansible inventory in {form} is not read; let Ansible turn it into JSON: "
        f"ansible-inventory -i {file} --list > hosts.json && preflight inventory import hosts.json"
    )


def read(source: Source) -> Listed:
    """The hosts of the group that was asked for (`all`, unless said), in the order of groups and their children."""
    if not source.text.lstrip().startswith("{"):
        lines = [line.text for line in source.lines(indented=True)]
        if is_ini(lines) or is_yaml(lines):
            refuse(source, "INI" if is_ini(lines) else "YAML")
    top = json_node.read(source)
    groups = {name: node for name, node in top.members().items() if name != "_meta"}
    meta = top.members().get("_meta")
    variables = meta.member("hostvars").members() if meta else {}
    wanted = source.group or "all"
    if wanted not in groups and source.group:
        top.wrong(f"has no group {wanted!r}, only {', '.join(groups)}"[:200])
    begin = [wanted] if wanted in groups else list(groups)
    names: dict[str, Node] = {}
    for name in begin:
        for host, node in _hosts(groups, name, set()):
            names.setdefault(host, node)
    notes: set[str] = set()
    hosts = tuple(_host(name, node, variables.get(name), notes) for name, node in names.items())
    return source.listed(Listed(hosts, slots_are_devices=True, notes=tuple(sorted(notes))))


def write(listed: Listed) -> str:
    hosts = {host.name: _variables(host) for host in listed.hosts}
    return json.dumps({"all": {"hosts": hosts}}, indent=4) + "\n"


def _hosts(groups: Mapping[str, Node], name: str, seen: set[str]) -> Iterator[tuple[str, Node]]:
    """A group's own hosts, each with the node that names it, then those of its children; a child that is not listed
    is empty."""
    if name in seen or name not in groups:
        return
    seen.add(name)
    members = groups[name].members()
    if "vars" in members:
        members["vars"].wrong(
            "variables of groups are not read; give what ansible-inventory --list prints, no --export"
        )
    hosts, children = members.get("hosts"), members.get("children")
    if hosts and isinstance(hosts.value, dict):
        yield from hosts.members().items()
    elif hosts:
        yield from ((node.host(), node) for node in hosts.elements())
    for child in children.elements() if children else ():
        yield from _hosts(groups, child.text(), seen)


def _host(name: str, node: Node, variables: Node | None, notes: set[str]) -> ListedHost:
    """`node`: where the name stands, or its variables, if it has none in hostvars."""
    said = variables.members() if variables else node.members() if isinstance(node.value, dict) else {}
    said |= {new: said[old] for new, old in _OLD.items() if old in said and new not in said}

    def text(key: str) -> str | None:
        if key not in said or said[key].value in (None, ""):
            return None
        value = said[key].text()
        if "{{" in value or "{%" in value:
            said[key].wrong(f"{key} is a template, which only Ansible can fill in")
        return value

    def number(key: str, high: int) -> int | None:
        if key not in said:
            return None
        found = whole_number(str(said[key].value), 1, high)
        if found is None:
            said[key].wrong(f"{key} should be a number from 1 to {high}, found {str(said[key].value)[:40]!r}")
        return found

    node.checked(name)
    address = said["ansible_host"].host() if text("ansible_host") else None
    arguments = " ".join(filter(None, map(text, _ARGUMENTS)))
    if (connection := text("ansible_connection")) not in (None, "ssh", "smart", "paramiko", "paramiko_ssh"):
        way = ', or with ssh = { transport = "local" }' if connection == "local" else ""
        notes.add(f"left out, ansible_connection={connection[:40]}: hosts are reached by ssh{way}")
    return ListedHost(
        name,
        None if address == name else address,
        slots=number(DEVICES, 64),
        user=text("ansible_user"),
        port=number("ansible_port", 65535),
        key=text("ansible_ssh_private_key_file"),
        bastion=jump.of_arguments(_options(said, arguments), notes),
        sudo=_become(said["ansible_become"]) if "ansible_become" in said else None,
    )


def _become(node: Node) -> bool | None:
    """Return what ansible_become says. INI has words where JSON and YAML have true and false."""
    if node.value in (None, ""):
        return None
    become = _BOOLEANS.get(str(node.value).lower())
    if become is None:
        node.wrong(f"ansible_become should be true or false, found {str(node.value)[:40]!r}")
    return become


def _options(said: Mapping[str, Node], arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError as error:
        key = next(key for key in _ARGUMENTS if key in said)
        said[key].wrong(f"{key} is no command line: {str(error).lower()}")


def _variables(host: ListedHost) -> dict[str, str | int | bool]:
    said = {
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_user": host.user,
        "ansible_ssh_private_key_file": host.key,
        "ansible_ssh_common_args": shlex.join(["-o", f"ProxyJump={host.bastion}"]) if host.bastion else None,
        "ansible_become": host.sudo,
        DEVICES: host.slots,
    }
    return {key: value for key, value in said.items() if value is not None}
