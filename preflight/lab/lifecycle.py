"""The life of a lab: it is put up, reports its status, and is taken down without a trace."""

import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from preflight.lab import gpus, kernel, network, state, teardown, vendor
from preflight.lab.addresses import Management, inventory
from preflight.lab.firewalls import FIREWALLS
from preflight.lab.host import LabHost, make_key, prepare
from preflight.lab.spec import Spec, fabric_port
from preflight.lab.state import State
from preflight.model.errors import PreflightError, UsageError

OVERLAID = ("/etc", "/usr", "/var/lib")

PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
}

STAND_INS = (
    "hccn_tool, npu-smi, torch_npu with hccl, version files and /dev/davinci* are stand-ins; "
    f"device NICs are limited to {network.DEVICE_RATE}"
)
GPU_STAND_INS = (
    "nvidia-smi, fabric manager, /proc/driver/nvidia, /dev/kmsg and all of /sys/bus/pci/devices are stand-ins: "
    "there is no real GPU"
)


def stand_ins(spec: Spec) -> str:
    """Return a sentence on the stand-ins of a lab, or "" if it has none."""
    return STAND_INS if spec.is_npu else GPU_STAND_INS if spec.is_gpu else ""


def up(spec: Spec, directory: Path) -> State:
    """Put a lab up in `directory`. Take everything down again if that fails. Raise UsageError if it cannot begin."""
    require_root()
    require_programs(spec)
    directory = directory.resolve()
    if set(":,\\") & set(str(directory)):
        raise UsageError(f"the lab cannot use {directory}: overlay mounts do not support ':', ',' or '\\' in a path.")
    if overlaid := next((place for place in OVERLAID if directory.is_relative_to(place)), None):
        raise UsageError(f"the lab cannot use {directory}: the hosts of the lab have an overlay of {overlaid}.")
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the lab cannot use {directory}: {error.strerror}.") from None
    with state.locked(directory):
        if (directory / state.FILE).exists():
            raise UsageError(
                f"there is already a lab in {directory}. To end it, run `preflight lab down --dir {directory}`."
            )
        (directory / teardown.UNFINISHED).unlink(missing_ok=True)
        if occupied := next((name for name in teardown.WRITTEN if os.path.lexists(directory / name)), None):
            raise UsageError(f"{directory / occupied} already exists. Move it away, or choose another --dir.")
        lab = State(secrets.token_hex(2), spec, made_directory=is_new)
        while kernel.namespaces(lab.names.prefix):
            lab = replace(lab, id=secrets.token_hex(2))
        try:
            lab.save(directory)
            return _build(lab, directory)
        except BaseException as error:
            teardown.take_down(teardown.Remains(directory, frozenset({lab.id}), is_new))
            if isinstance(error, OSError):  # a full disk, or no namespaces available
                raise PreflightError(f"the lab could not start: {error}") from None
            raise


def _build(lab: State, directory: Path) -> State:
    spec = lab.spec
    standins = directory / "standins"
    standins.mkdir()
    if spec.is_npu:
        vendor.lay_out(spec, standins)
    if spec.is_gpu:
        gpus.lay_out(standins)
    management = network.build(spec, lab.names)
    lab = replace(lab, network=str(management.network))
    lab.save(directory)
    public_key = make_key(directory / "id_ed25519", "preflight lab")
    hosts = hosts_of(lab, directory)
    known_hosts: dict[str, str] = {}

    def begin(host: LabHost) -> None:
        known_hosts[host.name] = prepare(host, management, public_key)
        if spec.is_npu:
            (host.directory / "etc" / "ascend_install.info").write_text(vendor.INSTALL_INFO)
        host.start(standins, directory)

    network.in_parallel(begin, hosts)
    (directory / "known_hosts").write_text("".join(known_hosts[host.name] for host in hosts))
    (directory / "hosts.toml").write_text(inventory(spec, management))
    for host in hosts:
        host.wait()
    lab = replace(lab, ready=True)
    lab.save(directory)
    return lab


def hosts_of(lab: State, directory: Path) -> list[LabHost]:
    """Return all hosts of a lab, in order."""
    return [
        LabHost(name, number, lab.spec, lab.names, directory / "hosts" / name)
        for number, name in enumerate(lab.spec.host_names)
    ]


def down(directory: Path) -> str:
    """End the lab of a directory, in whatever state it is. Return one sentence. A missing lab is no error."""
    require_root()
    directory = directory.resolve()
    with state.locked(directory) if directory.is_dir() else nullcontext():
        remains = teardown.find(directory)
        if remains is None:
            return f"there is no lab in {directory}."
        teardown.take_down(remains)
        return f"the lab in {directory} is down."


def status(directory: Path) -> dict[str, Any]:
    """Return the status document (docs/contracts.md). `pid` is null and `up` false for a host that is down."""
    require_root()
    directory = directory.resolve()
    lab = state.load(directory)
    spec, names = lab.spec, lab.names
    management = Management(IPv4Network(lab.network)) if lab.network else None
    return {
        "schema": 1,
        "id": lab.id,
        "product": spec.product,
        "firewall": spec.firewall,
        "fabric": spec.fabric,
        "leaves": spec.leaves,
        "ready": lab.ready,
        "inventory": str(directory / "hosts.toml"),
        "stand_ins": stand_ins(spec),
        "breaks": [{"name": entry.fault, "host": entry.host, "device": entry.device} for entry in lab.breaks],
        "hosts": [
            {
                "name": host.name,
                "address": management.host(host.number) if management else None,
                "port": 22,
                "user": spec.user,
                "netns": host.netns,
                "pid": init.pid if (init := host.init) else None,
                "up": init is not None,
                "devices": [
                    {
                        "index": index,
                        "netns": names.device(host.name, index),
                        "interface": f"eth{index}",
                        "address": device_address(names.device(host.name, index), index),
                        "fabric_interface": fabric_port(host.name, index),
                        "fabric_netns": names.fabric,
                    }
                    for index in range(spec.device_nics)
                ],
            }
            for host in hosts_of(lab, directory)
        ],
    }


def device_address(netns: str, device: int) -> str | None:
    """Return the IPv4 address of a device NIC, or None if it has none."""
    try:
        with kernel.inside(netns):
            return kernel.interface_address(f"eth{device}")
    except OSError:
        return None


def require_root() -> None:
    """Raise UsageError unless this process may make namespaces."""
    if os.geteuid() != 0:
        raise UsageError(
            "the lab needs root: it creates network namespaces and mounts, and runs a real sshd. Try sudo."
        )


def require_programs(spec: Spec) -> None:
    """Raise UsageError with the Debian package of the first program that is missing."""
    for program, package in {**PROGRAMS, **FIREWALLS[spec.firewall].programs}.items():
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            raise UsageError(f"the lab needs `{program}`: apt-get install {package}")


def selected(hosts: Sequence[LabHost], name: str | None) -> LabHost:
    """Return the named host, or the first if none is named. Raise UsageError for an unknown name."""
    for host in hosts:
        if name in (None, host.name):
            return host
    raise UsageError(f"the lab has no host {name!r}. Its hosts are {hosts[0].name} to {hosts[-1].name}.")
