"""Ansible's inventory: read as `ansible-inventory --list` prints it, {"_meta": {"hostvars": …}, "all": {"hosts": […]}},
and written as one that `ansible -i FILE` reads, {"all": {"hosts": {NAME: {…}}}}, which is read, too.
"""

import json
import shlex
from collections.abc import Iterator, Mapping

from preflight.hostlists import json_node, jump
from preflight.hostlists.json_node import Node
from preflight.hostlists.listed import Listed, ListedHost, Source, whole_number

DEVICES = "preflight_devices"  # a variable of ours, for what Ansible has no name for
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
_OLD = {"ansible_host": "ansible_ssh_host", "ansible_port": "ansible_ssh_port", "ansible_user": "ansible_ssh_user"}


def read(source: Source) -> Listed:
    """The hosts of the group that was asked for (`all`, unless said), in the order of groups and their children."""
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
    sudo = said["ansible_become"].value if "ansible_become" in said else None
    return ListedHost(
        name,
        None if address == name else address,
        slots=number(DEVICES, 64),
        user=text("ansible_user"),
        port=number("ansible_port", 65535),
        key=text("ansible_ssh_private_key_file"),
        bastion=jump.of_arguments(_options(said, arguments), notes),
        sudo=sudo if isinstance(sudo, bool) else None,
    )


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
