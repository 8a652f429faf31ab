"""Ansible's inventory as `ansible-inventory --list` prints it: {"_meta": {"hostvars": …}, "all": {"children": […]}}."""

import json
import shlex
from collections.abc import Iterator, Mapping

from preflight.inventory.lists import json_node, jump
from preflight.inventory.lists.json_node import Node
from preflight.inventory.lists.listed import Listed, ListedHost, Source, whole_number

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
        for node in _hosts(groups, name, set()):
            names.setdefault(node.text(), node)
    notes: set[str] = set()
    hosts = tuple(_host(node, variables.get(name), notes) for name, node in names.items())
    return source.listed(Listed(hosts, notes=tuple(sorted(notes))))


def write(listed: Listed) -> str:
    names = [host.name for host in listed.hosts]
    return (
        json.dumps(
            {
                "_meta": {"hostvars": {host.name: _variables(host) for host in listed.hosts}},
                "all": {"children": ["ungrouped"]},
                "ungrouped": {"hosts": names},
            },
            indent=4,
        )
        + "\n"
    )


def _hosts(groups: Mapping[str, Node], name: str, seen: set[str]) -> Iterator[Node]:
    """A group's own hosts, then those of its children; a child that is not listed is empty."""
    if name in seen or name not in groups:
        return
    seen.add(name)
    members = groups[name].members()
    if "hosts" in members:
        yield from members["hosts"].elements()
    for child in members["children"].elements() if "children" in members else ():
        yield from _hosts(groups, child.text(), seen)


def _host(node: Node, variables: Node | None, notes: set[str]) -> ListedHost:
    name = node.host()
    said = variables.members() if variables else {}
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

    address = said["ansible_host"].host() if text("ansible_host") else None
    arguments = " ".join(filter(None, map(text, _ARGUMENTS)))
    bastion = jump.of_arguments(_options(said, arguments), notes)
    sudo = said["ansible_become"].value if "ansible_become" in said else None
    return ListedHost(
        name,
        None if address == name else address,
        number(DEVICES, 64),
        text("ansible_user"),
        number("ansible_port", 65535),
        text("ansible_ssh_private_key_file"),
        bastion,
        sudo if isinstance(sudo, bool) else None,
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
