"""A cluster's hosts as a host list, and the fields that a format has no place for. Pure."""

from collections.abc import Sequence

from preflight.hostlists.formats import Format
from preflight.hostlists.host_list import HostList, ListedHost
from preflight.model.cluster import Bastion, Host

_WORDS = {
    "address": "the hosts' addresses",
    "slots": "the number of devices",
    "user": "the ssh users",
    "port": "the ssh ports",
    "key": "the ssh keys",
    "bastion": "the ssh jump hosts",
    "sudo": "sudo",
    "device_ips": "the devices' addresses",
}


def host_list_of(hosts: Sequence[Host], *, by_address: bool = False, superpod: bool = False) -> HostList:
    """Return the hosts as a list. `by_address`: with their addresses as names. `superpod`: they are in super-pods."""
    return HostList(tuple(_host(host, by_address) for host in hosts), superpod=superpod)


def left_out(host_list: HostList, form: Format) -> list[str]:
    """Return the fields that the hosts have and the format cannot hold, in words."""
    return [
        words
        for field, words in _WORDS.items()
        if field not in form.holds and any(getattr(host, field) not in (None, ()) for host in host_list.hosts)
    ]


def _host(host: Host, by_address: bool) -> ListedHost:
    ips = tuple(device.address.ip for device in host.devices if device.address)
    return ListedHost(
        host.address if by_address else host.name,
        None if by_address or host.address == host.name else host.address,
        len(host.devices) or None,
        host.ssh.user,
        host.ssh.port,
        host.ssh.key,
        _bastion(host.ssh.bastion) if host.ssh.bastion else None,
        host.ssh.sudo or None,
        ips if len(ips) == len(host.devices) else (),
    )


def _bastion(bastion: Bastion) -> str:
    user = f"{bastion.user}@" if bastion.user else ""
    host = f"[{bastion.host}]" if ":" in bastion.host else bastion.host
    return user + host + (f":{bastion.port}" if bastion.port else "")
