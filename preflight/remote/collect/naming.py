"""Name resolution for jobs: names and addresses beside the cluster's own names."""

import socket
import time

from collect.tools import each, read

SECONDS = 6.0  # for all look-ups; a resolver waits 5 s for a server before it asks again


def look_naming(request, deadline):
    """Return the results of all look-ups, with null for one that takes too long. Each has a thread, since a dead name
    server answers none of them."""
    options = request["naming"]
    work = {("localhost", ""): lambda: resolve("localhost"), ("full_name", ""): lambda: full_name(options["peers"])}
    for address in options["addresses"]:
        work["reverse", address] = lambda address=address: reverse(address)
    for name in options["endpoints"]:
        work["endpoint", name] = lambda name=name: is_this_host(name)
    results = each(work, lambda key: work[key](), min(deadline - 1, time.monotonic() + SECONDS))

    def of(kind):  # as pairs: names and addresses that are kept anonymous cannot be keys
        return [[key[1], results.get(str(key))] for key in work if key[0] == kind]

    return {
        "localhost": results.get(str(("localhost", ""))),
        "full_name": results.get(str(("full_name", ""))),
        "reverse": of("reverse"),
        "endpoints": of("endpoint"),
        "seconds": SECONDS,
        "search": search_list(read("/etc/resolv.conf") or ""),
    }


def search_list(text):
    """Return the domains that the resolver appends to names. The last of several lines counts, see resolv.conf(5)."""
    domains = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in ("search", "domain"):
            domains = words[1:]
    return domains


def entries(name, flags=0):
    try:
        return socket.getaddrinfo(name, None, proto=socket.IPPROTO_TCP, flags=flags)
    except (OSError, UnicodeError):
        return []


def resolve(name):
    return sorted({entry[4][0] for entry in entries(name)})


def full_name(peers):
    """Return this host's full name, and the addresses of the peers' full names in its domain as resolved here."""
    name = socket.getfqdn()
    domain = name.partition(".")[2]
    names = [peer + "." + domain for peer in peers if domain and "." not in peer]
    return {"name": name, "peers": [[peer, resolve(peer)] for peer in names]}


def reverse(address):
    """Return the seconds of a search for the name of an address, even without a result: torch does that for every
    client."""
    start = time.monotonic()
    try:
        socket.gethostbyaddr(address)  # getnameinfo would hold the interpreter's lock and so all sections
    except OSError:
        pass
    return time.monotonic() - start


def is_this_host(host):
    """Return whether torchrun takes `host` for the host that it runs on, and serves the store there. The rule is that
    of torch 2.13, torch/distributed/elastic/rendezvous/utils.py, _matches_machine_hostname."""
    address, own_name = plain(host), socket.gethostname()
    if host in ("localhost", own_name) or address.startswith("127.") or address == "::1":
        return True
    host_addresses = {entry[4][0] for entry in entries(host, socket.AI_CANONNAME)}
    for entry in entries(own_name, socket.AI_CANONNAME):
        if (entry[3] and entry[3] == host) or entry[4][0] == address or entry[4][0] in host_addresses:
            return True
    return False


def plain(host):
    """Return an address as the resolver writes it; "" for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, host))
        except OSError:
            continue
    return ""
