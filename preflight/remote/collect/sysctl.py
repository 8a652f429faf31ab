"""Kernel settings, and every file that sets them."""

# ruff: noqa: ARG001  (the sections have one signature)

import os

from collect.tools import LookError, listing, read, runs, texts


def look_sysctl(request, deadline):
    """Return the kernel's values, and every *.conf that a loader could read, with its text if that is about our key."""
    values = {}
    backlogs = ("net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog")
    for key in ("net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_local_port_range", *backlogs, "fs.file-nr"):
        values[key] = read("/proc/sys/" + key.replace(".", "/"))
    files = []
    for folder in ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"):
        try:
            names = sorted(name for name in listing(folder) if name.endswith(".conf"))
            files += [sysctl_file(os.path.join(folder, name)) for name in names]
        except LookError as error:
            files.append({"path": folder + "/*.conf", "error": str(error)})
    if os.path.lexists("/etc/sysctl.conf"):
        files.append(sysctl_file("/etc/sysctl.conf"))
    try:
        tuned = look_tuned()
    except LookError as error:
        tuned = {"error": str(error)}
    return {"values": values, "files": files, "read_only": read_only("/proc/sys/net/ipv4"), "tuned": tuned}


def sysctl_file(path):
    entry = {"path": path, "target": os.path.realpath(path) if os.path.islink(path) else "", "text": "", "error": ""}
    try:
        # A path that is no file, such as a directory or /dev/null, sets nothing; and a pipe would never end.
        text = (read(path) or "") if os.path.isfile(path) else ""
        if "ip_local_reserved_ports" in text or path.endswith("/90-preflight.conf"):
            entry["text"] = text
    except LookError as error:
        entry["error"] = str(error)
    return entry


def read_only(path):
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def look_tuned():
    """Return tuned's profiles if it is used and one of them is about our key, else None."""
    active = read("/etc/tuned/active_profile") or ""
    if not active.strip():
        return None
    files = tuned_profiles()
    if not any("ip_local_reserved_ports" in text for text in files.values()):
        return None
    if not (os.path.lexists("/etc/systemd/system/multi-user.target.wants/tuned.service") or runs("tuned")):
        return None
    post_loaded, main = read("/etc/tuned/post_loaded_profile") or "", read("/etc/tuned/tuned-main.conf") or ""
    return {"active": active, "post_loaded": post_loaded, "main": main, "files": files}


def tuned_profiles():
    """Return {path: text} of all profiles."""
    folders = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
    return texts(os.path.join(folder, name, "tuned.conf") for folder in folders for name in listing(folder))
