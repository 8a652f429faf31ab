"""Firewalls of the host: active rules, rules of the next boot, and the path of this login."""

# ruff: noqa: ARG001  (the sections have one signature)

import os

from collect.own import parent_of
from collect.tools import FILE_LIMIT, command, find, listed, read, required, runs, texts


def look_firewall(request, deadline):
    nft = find("nft")
    ruleset = command([nft, "list", "ruleset"], deadline, limit=FILE_LIMIT) if nft else None
    programs = iptables_programs(ruleset)
    return {
        "nft": ruleset,
        "nft_boot_file": read("/etc/nftables.conf"),
        "nft_preflight_file": read("/etc/preflight/nftables.nft"),
        "ufw_installed": find("ufw") is not None,
        "ufw_conf": read("/etc/ufw/ufw.conf"),
        "ufw_rules": [read(path) or "" for path in ("/etc/ufw/user.rules", "/etc/ufw/user6.rules")],
        "ufw_default": read("/etc/default/ufw"),
        "iptables": {
            name: command([path, "-w", "-S", "INPUT"], deadline, limit=FILE_LIMIT) if path else None
            for name, path in programs.items()
        },
        "nat": nat_rules(programs, nft, deadline),
        "iptables_saved": texts(SAVED_RULES),
        "firewalld": look_firewalld(deadline) if find("firewalld") and runs("firewalld") else None,
        "at_boot": [service for service in FIREWALL_SERVICES if starts_at_boot(service)],
        "ssh_connection": ssh_connection(),
    }


FIREWALL_SERVICES = ("firewalld", "nftables", "netfilter-persistent", "iptables", "ip6tables", "ufw")
SAVED_NAMES = ("rules.v4", "rules.v6", "iptables", "ip6tables")  # of netfilter-persistent and of iptables-services
SAVED_RULES = [folder + "/" + name for folder in ("/etc/iptables", "/etc/sysconfig") for name in SAVED_NAMES]


def starts_at_boot(service):
    """Return whether systemd starts the service: a target wants it, and it is not masked."""
    base = "/etc/systemd/system/"
    unit = service + ".service"
    is_wanted = any(os.path.lexists(folder + "/" + unit) for folder in listed(base, ".target.wants"))
    return is_wanted and os.path.realpath(base + unit) != "/dev/null"


def nat_rules(programs, nft, deadline):
    """Return the rules of tables that nft does not show: of legacy iptables, and of all where nft is not installed."""
    return {
        name: command([path, "-w", "-t", "nat", "-S"], deadline, limit=FILE_LIMIT)
        for name, path in programs.items()
        if path and (name in legacy_tables("nat") if "legacy" in name else not nft)
    }


def iptables_programs(ruleset):
    """Return {name: path, or None where it is not installed} of the iptables programs with tables in the kernel."""
    names = legacy_tables("filter")
    if ruleset is None:  # then only iptables-nft itself shows its rules
        names += [name for name in ("iptables-nft", "ip6tables-nft") if iptables_path(name)]
    else:
        for table, name in (("\ntable ip filter {", "iptables-nft"), ("\ntable ip6 filter {", "ip6tables-nft")):
            if table in "\n" + ruleset["out"]:
                names.append(name)
    return {name: iptables_path(name) for name in names}


def legacy_tables(table):
    """Return the legacy programs with `table` in the kernel. To list a missing table would create it."""
    programs = []
    for name, path in (("iptables", "/proc/net/ip_tables_names"), ("ip6tables", "/proc/net/ip6_tables_names")):
        if os.path.exists(path) and table in (read(path) or "").split():
            programs.append(name + "-legacy")
    return programs


def iptables_path(name):
    """Return the path of a program like `iptables-nft`, or of plain `iptables` where that is a link to the same
    variant. Older systems have the legacy program under the plain name only."""
    plain, _, variant = name.partition("-")
    path = find(plain)
    is_nft = path is not None and "nft" in os.path.basename(os.path.realpath(path))
    return find(name) or (path if path and is_nft == (variant == "nft") else None)


def look_firewalld(deadline):
    folders = ("/etc/firewalld/zones", "/usr/lib/firewalld/zones", "/etc/firewalld/services")
    zones, builtin, services = (texts(listed(folder, ".xml")) for folder in folders)
    modules = [
        module
        for base in ("/usr/lib", "/usr/lib64")
        for python in listed(base, "")
        if os.path.basename(python).startswith("python")
        for packages in ("dist-packages", "site-packages")
        for module in [python + "/" + packages + "/firewall/config/__init__.py"]
        if os.path.exists(module)
    ]
    return {
        "zones": command([required("firewall-cmd"), "--list-all-zones"], deadline),
        "config": read("/etc/firewalld/firewalld.conf"),
        "module": read(modules[0]) if modules else None,
        "zone_files": dict(zones, **builtin),
        "services": services,
    }


def ssh_connection():
    """Return SSH_CONNECTION of the login that this runs in. sudo removes it from its child, so parents are read,
    too."""
    pid = os.getpid()
    while pid > 1:
        try:
            with open("/proc/%d/environ" % pid, "rb") as file:
                for variable in file.read().split(b"\0"):
                    if variable.startswith(b"SSH_CONNECTION="):
                        return variable.partition(b"=")[2].decode("utf-8", "replace")
        except OSError:
            return None
        pid = parent_of(pid)
    return None
