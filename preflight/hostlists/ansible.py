"""Ansible's inventory as `ansible-inventory --list` prints it: {"_meta": {"hostvars": …}, "all": {"hosts": […]}}.

It is written as `ansible -i FILE` reads it, {"all": {"hosts": {NAME: {…}}}}, and that is read, too. Inventories in INI
or YAML are recognized and refused, since they depend on ranges, templates, and files of variables beside them.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from preflight.hostlists import json_node, proxy_jump
from preflight.hostlists.host_list import HostList, ListedHost, ListSource, whole_number
from preflight.hostlists.json_node import Node
from preflight.inventory.errors import InventoryError

DEVICES = "preflight_devices"  # our own variable, since Ansible has none for it
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
_OLD_NAMES = {
    "ansible_host": "ansible_ssh_host",
    "ansible_port": "ansible_ssh_port",
    "ansible_user": "ansible_ssh_user",
    "ansible_ssh_private_key_file": "ansible_private_key_file",
}
# INI has words where JSON and YAML have true and false.
_BOOLEANS = dict.fromkeys(("yes", "on", "1", "true", "t", "y"), True) | dict.fromkeys(
    ("no", "off", "0", "false", "f", "n"), False
)
_SECTION = re.compile(r"\[[A-Za-z_][\w.-]*((?::(?:children|vars|hosts))?)\]")
_HOST_VARIABLE = re.compile(r"\sansible_\w+\s*=")
_ASSIGNMENT = re.compile(r"[\w.-]+\s*=")
_YAML_KEY = re.compile(r"\s+(?:hosts|children|vars):")


def is_ini(lines: Sequence[str]) -> bool:
    """Return whether the lines are an inventory in INI: a host with a variable of Ansible's, or a group with a host."""
    if any(line.startswith("[[") for line in lines):  # TOML
        return False
    section, has_group, has_host = "", False, False
    for line in map(str.strip, lines):
        if _HOST_VARIABLE.search(line):
            return True
        if match := _SECTION.fullmatch(line):
            section, has_group = match[1], True
        elif section != ":vars" and not line.startswith(";") and not _ASSIGNMENT.match(line):
            has_host = True
    return has_group and has_host


def is_yaml(lines: Sequence[str]) -> bool:
    """Return whether the lines are an inventory in YAML: a group, and below it its hosts, children or variables."""
    first, second, third, *_ = (*lines[bool(lines) and lines[0] == "---" :], "", "", "")
    return first.endswith(":") and bool(_YAML_KEY.fullmatch(second)) and not third.lstrip().startswith("- ")


def _refuse_other_forms(source: ListSource) -> None:
    """Raise InventoryError for INI and YAML, with the command that converts the file to JSON."""
    if source.text.lstrip().startswith("{"):
        return
    lines = [line.text for line in source.lines(indented=True)]
    form = "INI" if is_ini(lines) else "YAML" if is_yaml(lines) else ""
    if not form:
        return
    file = "FILE" if source.name == "stdin" else shlex.quote(source.name)
    raise InventoryError(
        f"{source.name}: Ansible inventories in {form} are not supported. Convert it to JSON first: "
        f"ansible-inventory -i {file} --list > hosts.json && preflight inventory import hosts.json"
    )


def read(source: ListSource) -> HostList:
    """Read the hosts of the group that was asked for, else of `all`, in the order of groups and their children."""
    _refuse_other_forms(source)
    root = json_node.read(source)
    groups = root.members()
    meta = groups.pop("_meta", None)
    variables = meta.member("hostvars").members() if meta else {}
    if source.group and source.group not in groups:
        root.fail(f"has no group {source.group!r}, only {', '.join(groups)}"[:200])
    group = source.group or "all"
    nodes: dict[str, Node] = {}
    for name in [group] if group in groups else groups:
        for host, node in _hosts(groups, name, set()):
            nodes.setdefault(host, node)
    notes: set[str] = set()
    hosts = tuple(_host(name, node, variables.get(name), notes) for name, node in nodes.items())
    return source.valid_list(HostList(hosts, slots_are_devices=True, notes=tuple(sorted(notes))))


def write(host_list: HostList) -> str:
    hosts = {host.name: _variables(host) for host in host_list.hosts}
    return json.dumps({"all": {"hosts": hosts}}, indent=4) + "\n"


def _hosts(groups: Mapping[str, Node], group: str, visited: set[str]) -> Iterator[tuple[str, Node]]:
    """Yield a group's own hosts, each with the node of its name, then those of its children.

    A child that is not in `groups` is empty.
    """
    if group in visited or group not in groups:
        return
    visited.add(group)
    members = groups[group].members()
    if "vars" in members:
        members["vars"].fail(
            "variables of groups are not supported. Use the output of ansible-inventory --list without --export"
        )
    hosts, children = members.get("hosts"), members.get("children")
    if hosts and isinstance(hosts.value, dict):
        yield from hosts.members().items()
    elif hosts:
        yield from ((node.host(), node) for node in hosts.elements())
    for child in children.elements() if children else ():
        yield from _hosts(groups, child.text(), visited)


def _host(name: str, node: Node, hostvars: Node | None, notes: set[str]) -> ListedHost:
    """Return a host. `node` is its name, or its variables if it has none in hostvars."""
    nodes = hostvars.members() if hostvars else node.members() if isinstance(node.value, dict) else {}
    nodes = {new: nodes[old] for new, old in _OLD_NAMES.items() if old in nodes} | nodes
    variables = _HostVariables(nodes)
    node.valid_host(name)
    address = nodes["ansible_host"].host() if variables.text("ansible_host") else None
    arguments = " ".join(filter(None, map(variables.text, _ARGUMENTS)))
    connection = variables.text("ansible_connection")
    if connection not in (None, "ssh", "smart", "paramiko", "paramiko_ssh"):
        way = ', or with ssh = { transport = "local" }' if connection == "local" else ""
        notes.add(f"ansible_connection={connection[:40]} was ignored: preflight connects by ssh{way}")
    return ListedHost(
        name,
        None if address == name else address,
        slots=variables.number(DEVICES, 64),
        user=variables.text("ansible_user"),
        port=variables.number("ansible_port", 65535),
        key=variables.text("ansible_ssh_private_key_file"),
        bastion=proxy_jump.of_arguments(_split(nodes, arguments), notes),
        sudo=variables.boolean("ansible_become"),
    )


@dataclass(frozen=True)
class _HostVariables:
    """A host's variables. Methods return None if a variable is not set, and raise InventoryError for bad values."""

    nodes: Mapping[str, Node]

    def text(self, key: str) -> str | None:
        if self._is_unset(key):
            return None
        value = self.nodes[key].text()
        if "{{" in value or "{%" in value:
            self.nodes[key].fail(f"{key} is a template, which only Ansible can resolve")
        return value

    def number(self, key: str, high: int) -> int | None:
        if key not in self.nodes:
            return None
        text = str(self.nodes[key].value)
        number = whole_number(text, 1, high)
        if number is None:
            self.nodes[key].fail(f"{key} should be a number from 1 to {high}, found {text[:40]!r}")
        return number

    def boolean(self, key: str) -> bool | None:
        if self._is_unset(key):
            return None
        text = str(self.nodes[key].value)
        boolean = _BOOLEANS.get(text.lower())
        if boolean is None:
            self.nodes[key].fail(f"{key} should be true or false, found {text[:40]!r}")
        return boolean

    def _is_unset(self, key: str) -> bool:
        return key not in self.nodes or self.nodes[key].value in (None, "")


def _split(nodes: Mapping[str, Node], arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError as error:
        key = next(key for key in _ARGUMENTS if key in nodes)
        nodes[key].fail(f"{key} is not a valid command line: {str(error).lower()}")


def _variables(host: ListedHost) -> dict[str, str | int | bool]:
    variables = {
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_user": host.user,
        "ansible_ssh_private_key_file": host.key,
        "ansible_ssh_common_args": shlex.join(["-o", f"ProxyJump={host.bastion}"]) if host.bastion else None,
        "ansible_become": host.sudo,
        DEVICES: host.slots,
    }
    return {key: value for key, value in variables.items() if value is not None}
