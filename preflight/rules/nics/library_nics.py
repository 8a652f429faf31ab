"""The host NIC that NCCL, gloo and Open MPI take, each by its own rule; HCCL's is in `hccl_nic`. Pure.

NCCL's rule is that of src/misc/socket.cc, ncclFindInterfaces. Gloo's is that of ProcessGroupGloo.cpp of torch and
gloo/transport/tcp/device.cc; its messages were measured with torch 2.13. Open MPI's is that of
opal/mca/btl/tcp/btl_tcp_component.c of 4.1."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network

from preflight.facts.sections.job import Mpi
from preflight.facts.types import Interface, Network
from preflight.model.text import quote
from preflight.rules.nics.hccl_nic import FIRST, Address, NicChoice, NoNic, addresses
from preflight.rules.variables.nccl import fits_any, read_patterns

BY_NAME = "the address of the host's own name"
_SHORTEST = 2  # characters; NCCL and torch ignore a shorter value
# The search order of NCCL if no variable names a NIC. Before 2.21 a bridge of libvirt (virbr) was like any other NIC.
_NCCL_ORDER = ("ib", "^docker,lo,virbr", "docker", "lo", "virbr")
_NCCL_FAMILIES = {"AF_INET": (4,), "AF_INET6": (6,)}
_BOTH = (4, 6)


def nccl(variables: Mapping[str, str], network: Network, file: str = "") -> NicChoice | NoNic:
    """Return the first NIC in the kernel's order that fits, on which NCCL listens for the other ranks' bootstrap.

    `file`: NCCL's configuration file, if that sets NCCL_SOCKET_IFNAME."""
    names = variables.get("NCCL_SOCKET_IFNAME", "")
    family = variables.get("NCCL_SOCKET_FAMILY", "")
    nics = list(_with_addresses(_up(network), _NCCL_FAMILIES.get(family, _BOTH)))
    if len(names) < _SHORTEST:
        return _by_nccl_order(nics, family)
    setting = f"NCCL_SOCKET_IFNAME={quote(names)}" + (f" in {file}" if file else "")
    for nic in nics:
        if nccl_fits(names, nic[0]):
            return NicChoice(*nic, setting, file)
    fitting = [nic.name for nic in network.interfaces if nccl_fits(names, nic.name)]
    return _no_nic(setting, network, fitting, "Bootstrap : no socket interface found", file)


def _by_nccl_order(nics: Sequence[tuple[str, Address]], family: str) -> NicChoice | NoNic:
    """Return the NIC that NCCL takes where no variable names one."""
    first = next((nic for order in _NCCL_ORDER for nic in nics if nccl_fits(order, nic[0])), None)
    why = f"{FIRST} with NCCL_SOCKET_FAMILY={family}" if family in _NCCL_FAMILIES else FIRST
    return NicChoice(*first, why) if first else NoNic("no interface that is up has an address")


def nccl_fits(patterns: str, nic: str) -> bool:
    """Return whether a NIC fits NCCL_SOCKET_IFNAME: `eth,ib` by beginning, `=eth0` by name, `^` before either for all
    others.

    The part after a colon is a port, not a name."""
    negated, exact, words = read_patterns(patterns)
    return (not words or fits_any(nic, [word for word, _ in words], exact)) is not negated


def more_than_meant(names: str, network: Network) -> tuple[str, tuple[str, ...]] | None:
    """Return a word of NCCL_SOCKET_IFNAME that is a NIC's name, and the other NICs that it also fits: eth1 fits
    eth10."""
    if names.startswith(("^", "=")):
        return None
    present = _present(network)
    for word in (word.partition(":")[0] for word in names.split(",")):
        extra_nics = tuple(nic for nic in present if nic.startswith(word) and nic != word)
        if word in present and extra_nics:
            return word, extra_nics
    return None


def gloo(variables: Mapping[str, str], network: Network, own_name: Sequence[str]) -> NicChoice | NoNic | None:
    """Return the first interface of GLOO_SOCKET_IFNAME, all of which must be present.

    Without the variable, return the first address of the host's own name that this host can bind. None: that is the
    loopback, or there is none (HST104)."""
    names = variables.get("GLOO_SOCKET_IFNAME", "")
    if len(names) < _SHORTEST:
        return _of_own_name(network, own_name)
    nics = {nic.name: nic for nic in network.interfaces}
    wanted = names.removesuffix(",").split(",")
    setting = f"GLOO_SOCKET_IFNAME={quote(names)}"
    for name in wanted:
        if name not in nics or not any(_with_addresses([nics[name]])):
            no_nic = _no_nic(setting, network, [name], f"Unable to find address for: {name}")
            rule = "GLOO_SOCKET_IFNAME takes whole names between commas, without ^, = or prefixes"
            return replace(no_nic, why=f"{no_nic.why}. {rule}")
    down = [name for name in wanted if not nics[name].up]
    if down:
        return NoNic(f"{down[0]} in {setting} is down", down[0])
    return NicChoice(*next(_with_addresses([nics[wanted[0]]])), setting)


def _of_own_name(network: Network, own_name: Sequence[str]) -> NicChoice | None:
    own = {address.ip: (nic, address) for nic, address in _with_addresses(network.interfaces)}
    for address in (ip_address(text.partition("%")[0]) for text in own_name):
        if address.is_loopback:
            return None
        if address in own:
            return NicChoice(*own[address], BY_NAME)
    return None


def mpi(settings: Mpi, network: Network) -> NicChoice | NoNic | None:
    """Return the first interface of btl_tcp_if_include; None if it is not set, and Open MPI takes all.

    The list holds names, each of which must be present, and networks, of which one must be."""
    include, exclude = (settings.parameters.get(f"btl_tcp_if_{kind}") for kind in ("include", "exclude"))
    if include is None or not include.value:
        return None
    if exclude and exclude.value:
        sources = f"btl_tcp_if_include ({include.source}) and btl_tcp_if_exclude ({exclude.source})"
        unset = f"btl_tcp_if_exclude ({exclude.source})"
        return NoNic(f"{sources} are both set, and Open MPI accepts only one of them", unset=unset)
    setting = f"btl_tcp_if_include={quote(include.value)} ({include.source})"
    file = include.source if "/" in include.source else ""
    choices: list[tuple[str, Address]] = []
    for word in filter(None, include.value.split(",")):
        nics = _of_mpi_word(word, network, setting)
        if isinstance(nics, NoNic):
            return replace(nics, file=file)
        choices += nics[:1]
    if choices:
        return NicChoice(*choices[0], setting, file)
    return _no_nic(setting, network, [], "Did not find interface matching this subnet", file)


def _of_mpi_word(word: str, network: Network, setting: str) -> list[tuple[str, Address]] | NoNic:
    """Return the NICs that a word of btl_tcp_if_include names, or why Open MPI refuses it."""
    if word[0].isalpha():
        nics = list(_with_addresses(nic for nic in _up(network) if nic.name == word))
        return nics or _no_nic(setting, network, [word], "Unknown interface name")
    try:
        network_of_word = ip_network(word, strict=False)
    except ValueError:
        return NoNic(f"{quote(word)} in {setting} is neither an interface nor a network")
    if "/" not in word:
        error = 'Invalid specification (missing "/")'
        return NoNic(f'{quote(word)} in {setting} is not a network. Open MPI reports "{error}"')
    return [nic for nic in _with_addresses(_up(network)) if nic[1].ip in network_of_word]


def _up(network: Network) -> Iterator[Interface]:
    return (nic for nic in network.interfaces if nic.up)


def _present(network: Network) -> list[str]:
    """Return the names of the NICs that are up and have an address."""
    return [nic.name for nic in _up(network) if nic.addresses]


def _with_addresses(nics: Iterable[Interface], versions: Iterable[int] = _BOTH) -> Iterator[tuple[str, Address]]:
    """Yield NICs with addresses in the order of getifaddrs(3): all of IPv4 first."""
    interfaces = list(nics)
    return ((nic.name, address) for version in versions for nic in interfaces for address in addresses(nic, version))


def _no_nic(setting: str, network: Network, names: Collection[str], error: str, file: str = "") -> NoNic:
    """Return why no NIC is chosen though NICs of these names fit, with the library's own error message."""
    fitting = [nic for nic in network.interfaces if nic.name in names]
    present = ", ".join(sorted(_present(network)))
    why, down = f"no interface matches {setting}. Interfaces with an address are {present or 'none'}", ""
    if fitting:
        nic = fitting[0]
        down = "" if nic.up else nic.name
        fault = "is down" if down else "has no usable address"
        why = f"{nic.name} matches {setting}, but {nic.name} {fault}"
    return NoNic(f'{why}. The library reports "{error}"', down, file)
