"""The host NIC that NCCL, gloo and Open MPI take, each by its own rule; HCCL's is in `hccl_nic`. Pure.

A sentence in place of a NIC gives the reason for none.

NCCL's rule is that of src/misc/socket.cc, ncclFindInterfaces. Gloo's is that of ProcessGroupGloo.cpp of torch and
gloo/transport/tcp/device.cc; its messages were measured with torch 2.13. Open MPI's is that of
opal/mca/btl/tcp/btl_tcp_component.c of 4.1."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network

from preflight.facts.quote import quote
from preflight.facts.sections.job import Mpi
from preflight.facts.types import Interface, Network
from preflight.rules.nics.hccl_nic import FIRST, Address, NicChoice, addresses

BY_NAME = "the address of the host's own name"
_SHORTEST = 2  # characters; NCCL and torch ignore a shorter value
# The search order of NCCL if no variable names a NIC. Before 2.21 a bridge of libvirt (virbr) was like any other NIC.
_NCCL_ORDER = ("ib", "^docker,lo,virbr", "docker", "lo", "virbr")


def nccl(variables: Mapping[str, str], network: Network, file: str = "") -> NicChoice | str:
    """Return the first NIC in the kernel's order that fits, on which NCCL listens for the other ranks' bootstrap.

    `file`: NCCL's configuration file, if that sets NCCL_SOCKET_IFNAME."""
    names = variables.get("NCCL_SOCKET_IFNAME", "")
    family = variables.get("NCCL_SOCKET_FAMILY", "")
    versions = {"AF_INET": (4,), "AF_INET6": (6,)}.get(family, (4, 6))
    nics = list(_with_addresses((nic for nic in network.interfaces if nic.up), versions))
    if len(names) < _SHORTEST:
        fitting = (nic for order in _NCCL_ORDER for nic in nics if nccl_fits(order, nic[0]))
        first = next(fitting, None)
        why = f"{FIRST} with NCCL_SOCKET_FAMILY={family}" if len(versions) == 1 else FIRST
        return NicChoice(*first, why) if first else "no interface that is up has an address"
    first = next((nic for nic in nics if nccl_fits(names, nic[0])), None)
    setting = f"NCCL_SOCKET_IFNAME={quote(names)}" + (f" of {file}" if file else "")
    if first:
        return NicChoice(*first, setting)
    message = "Bootstrap : no socket interface found"
    return _nothing(
        setting,
        network,
        [nic.name for nic in network.interfaces if nccl_fits(names, nic.name)],
        message,
    )


def nccl_fits(patterns: str, nic: str) -> bool:
    """Return whether a NIC fits NCCL_SOCKET_IFNAME: `eth,ib` by beginning, `=eth0` by name, `^` before either for all
    others.

    The part after a colon is a port, not a name."""
    negated = patterns.startswith("^")
    exact = patterns[negated:].startswith("=")
    words = list(filter(None, (word.partition(":")[0] for word in patterns[negated + exact :].split(","))))
    fits = any(nic == word if exact else nic.startswith(word) for word in words) or not words
    return fits is not negated


def more_than_meant(names: str, network: Network) -> tuple[str, tuple[str, ...]] | None:
    """Return a word of NCCL_SOCKET_IFNAME that is a NIC's name, and the other NICs that it also fits: eth1 fits
    eth10."""
    if names.startswith(("^", "=")):
        return None
    present = [nic.name for nic in network.interfaces if nic.up and nic.addresses]
    for word in (word.partition(":")[0] for word in names.split(",")):
        extra_nics = tuple(nic for nic in present if nic.startswith(word) and nic != word)
        if word in present and extra_nics:
            return word, extra_nics
    return None


def gloo(variables: Mapping[str, str], network: Network, own_name: Sequence[str]) -> NicChoice | str | None:
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
        if name not in nics or not any(_with_addresses([nics[name]], (4, 6))):
            why = _nothing(setting, network, [name], f"Unable to find address for: {name}")
            return f"{why}; gloo takes whole names between commas, and knows no ^, no = and no beginnings"
    down = [name for name in wanted if not nics[name].up]
    if down:
        return f"{setting}, and {down[0]} is down"
    return NicChoice(*next(_with_addresses([nics[wanted[0]]], (4, 6))), setting)


def _of_own_name(network: Network, own_name: Sequence[str]) -> NicChoice | None:
    own = {address.ip: (nic, address) for nic, address in _with_addresses(network.interfaces, (4, 6))}
    for address in (ip_address(text.partition("%")[0]) for text in own_name):
        if address.is_loopback:
            return None
        if address in own:
            return NicChoice(*own[address], BY_NAME)
    return None


def mpi(found: Mpi, network: Network) -> NicChoice | str | None:
    """Return the first interface of btl_tcp_if_include; None if it is not set, and Open MPI takes all.

    The list holds names, each of which must be present, and networks, of which one must be."""
    include, exclude = (found.parameters.get(f"btl_tcp_if_{kind}") for kind in ("include", "exclude"))
    if include is None or not include.value:
        return None
    if exclude and exclude.value:
        return f"{include.source} and {exclude.source} set btl_tcp_if_include and btl_tcp_if_exclude; only one may be"
    setting = f"btl_tcp_if_include={quote(include.value)} ({include.source})"
    up = [nic for nic in network.interfaces if nic.up]
    chosen: list[tuple[str, Address]] = []
    for word in filter(None, include.value.split(",")):
        if word[0].isalpha():
            nics = list(_with_addresses((nic for nic in up if nic.name == word), (4, 6)))
            if not nics:
                return _nothing(setting, network, [word], "Unknown interface name")
            chosen += nics[:1]
            continue
        try:
            network_of_word = ip_network(word, strict=False)
        except ValueError:
            return f"{setting}: {quote(word)} is neither an interface nor a network"
        if "/" not in word:
            return f'{setting}: {quote(word)} is no network: Invalid specification (missing "/")'
        chosen += [nic for nic in _with_addresses(up, (network_of_word.version,)) if nic[1].ip in network_of_word][:1]
    if chosen:
        return NicChoice(*chosen[0], setting)
    return _nothing(setting, network, [], "Did not find interface matching this subnet")


def _with_addresses(nics: Iterable[Interface], versions: Iterable[int]) -> Iterator[tuple[str, Address]]:
    """Yield NICs with addresses in the order of getifaddrs(3): all of IPv4 first."""
    interfaces = list(nics)
    return ((nic.name, address) for version in versions for nic in interfaces for address in addresses(nic, version))


def _nothing(told: str, network: Network, names: Collection[str], said: str) -> str:
    """Return why no NIC is chosen though NICs of these names fit, with the library's own error message."""
    fitting = [nic for nic in network.interfaces if nic.name in names]
    present = ", ".join(sorted(nic.name for nic in network.interfaces if nic.up and nic.addresses))
    why = f"no interface fits {told}; there are {present}"
    if fitting:
        fault = "is down" if not fitting[0].up else "has no address that counts"
        why = f"{fitting[0].name} fits {told}, and {fault}"
    return f'{why}; what it says: "{said}"'
