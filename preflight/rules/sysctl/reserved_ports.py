"""Edits of sysctl files that make every way of loading reserve the ports. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from preflight.facts.parsers.linux import sysctl as facts_sysctl
from preflight.facts.parsers.linux.sysctl import OWN_FILE, intended_ports, settings
from preflight.facts.types import Sysctl, SysctlFile, Tuned
from preflight.model.ports import PortSet
from preflight.model.text import quote
from preflight.rules.sysctl.load_order import CONF, LoadPath, accepted, after, in_one_write, read_in_order

KEY = "net.ipv4.ip_local_reserved_ports"


@dataclass(frozen=True)
class Edit:
    """One file to be written. `found`: the fault of its current content."""

    path: str
    before: str | None
    after: str
    found: str


@dataclass(frozen=True)
class Repair:
    """The edits that reserve the ports after every way of loading.

    `short`: the ways of loading that do not reserve all ports, and the ports that they miss. `left`: those that the
    edits do not fix."""

    short: Mapping[LoadPath, PortSet]
    edits: tuple[Edit, ...]
    left: Mapping[LoadPath, PortSet]
    united: PortSet


def repair(sysctl: Sysctl, wanted: PortSet) -> Repair:
    """Return the edits after which every file that sets the key has the united set in its own line.

    The united set is the wanted ports, the ports reserved now, and those of the files. Our own file is written only if
    that is not enough."""
    united = wanted | (accepted(sysctl.reserved_ports) or PortSet())
    for file in counting(sysctl):
        united |= _last_ports(file) or PortSet()
    if sysctl.tuned:
        united |= intended_ports(sysctl.tuned.value) or PortSet()
    short = _missing(sysctl, wanted)
    edits, edited_facts = _edit_files(sysctl, wanted, united)
    missing = _missing(edited_facts, wanted)
    if missing:
        own_edit, with_own = _add_own_file(edited_facts, united)
        missing_with_own = _missing(with_own, wanted)
        if own_edit and missing_with_own != missing:
            edits, missing = (*edits, own_edit), missing_with_own
    return Repair(short, edits, missing, united)


def counting(sysctl: Sysctl) -> list[SysctlFile]:
    """Return the files that some way of loading reads, now or at boot, in the order of their names; /etc/sysctl.conf
    last."""
    files = sysctl.reserved_files
    now = read_in_order(files)
    # /run is empty at boot, so its files hide nothing then.
    boot = read_in_order(file for file in files if not file.path.startswith("/run/"))
    return [*now, *(file for file in boot if file not in now), *(file for file in files if file.path == CONF)]


def unread(sysctl: Sysctl) -> list[tuple[str, str]]:
    """Return the files that some way of loading reads and that could not be read, with the error; tuned's too."""
    errors = [(file.path, file.error) for file in counting(sysctl) if file.error]
    return errors + (
        [(sysctl.tuned.source or "tuned", sysctl.tuned.error)] if sysctl.tuned and sysctl.tuned.error else []
    )


def unreadable(sysctl: Sysctl) -> list[tuple[str, str]]:
    """Return the files with a value that the kernel refuses and that is not understandable either, with that value.

    No list that replaced it could be known to hold the intended ports."""
    refused = [(file.path, file.value or "") for file in counting(sysctl) if _last_ports(file) is None]
    tuned = sysctl.tuned
    return refused + ([(tuned.source, tuned.value)] if tuned and intended_ports(tuned.value) is None else [])


def winner(way: LoadPath, sysctl: Sysctl) -> SysctlFile | None:
    """Return the file that is read last of those that set the key."""
    files = [file for file in counting(sysctl) if settings(file.text) and _is_read(file.path, way)]
    return files[-1] if files else None


def _is_read(path: str, way: LoadPath) -> bool:
    if way is LoadPath.BOOT:
        return path != CONF and not path.startswith("/run/")
    return way is not LoadPath.CONF or path == CONF


def with_value(text: str, ports: PortSet) -> str:
    """Return a file's text with `ports` in its last line for the key; every other byte is kept."""
    assignments = settings(text)
    if assignments and assignments[-1].value is not None:
        return f"{text[: assignments[-1].start]}{ports}{text[assignments[-1].end :]}"
    newline = "\r\n" if "\r\n" in text else "\n"
    return text + (newline if text and not text.endswith("\n") else "") + f"{KEY} = {ports}{newline}"


def own_file(ports: PortSet) -> str:
    """Return the whole of our own file."""
    return (
        "# Written by preflight. Training jobs bind these ports themselves, so the kernel must not assign them.\n"
        f"{KEY} = {ports}\n"
    )


def _missing(sysctl: Sysctl, wanted: PortSet) -> dict[LoadPath, PortSet]:
    """Return the ports that are not reserved after each way of loading. All but the boot are judged by the ports that
    they drop."""
    ends = {way: after(way, sysctl, PortSet() if way is LoadPath.BOOT else wanted) for way in LoadPath}
    return {way: wanted - ports for way, ports in ends.items() if wanted - ports}


def _last_ports(file: SysctlFile) -> PortSet | None:
    """Return the ports of the last line that the kernel takes, and of those after it that it refuses.

    None if that is no list of ports."""
    ports = PortSet()
    for setting in reversed(settings(file.text)):
        intended = intended_ports(setting.value or "")
        if intended is None:
            return None
        ports |= intended
        if setting.value is not None and accepted(setting.value) is not None:
            break
    return ports


def _lacks(file: SysctlFile, wanted: PortSet) -> bool:
    """Return whether the file's last line makes the kernel reserve less, independent of the program that loads it."""
    assignments = settings(file.text)
    if not assignments:
        return False
    loaded = accepted(in_one_write(assignments[-1].value or "")) or PortSet()
    return bool(wanted - loaded)


def _edit_files(sysctl: Sysctl, wanted: PortSet, united: PortSet) -> tuple[tuple[Edit, ...], Sysctl]:
    """Return the edits of files that set the key to less than is wanted, and the facts after them."""
    edits = {
        _real_path(file): Edit(file.path, file.text, with_value(file.text, united), fault(file.value))
        for file in counting(sysctl)
        if file.writable and _lacks(file, wanted)
    }
    files = tuple(
        replace(file, text=edits[real].after, value=str(united)) if (real := _real_path(file)) in edits else file
        for file in sysctl.reserved_files
    )
    tuned = sysctl.tuned
    if tuned and _editable(tuned) and wanted - (accepted(tuned.value) or PortSet()):
        text = with_value(tuned.text, united)
        edits[tuned.source] = Edit(tuned.source, tuned.text, text, fault(tuned.value))
        tuned = replace(tuned, value=str(united), text=text)
    return tuple(edits.values()), replace(sysctl, reserved_files=files, tuned=tuned)


def _real_path(file: SysctlFile) -> str:
    """Return a link's target, as 99-sysctl.conf is mostly /etc/sysctl.conf."""
    return file.target or file.path


def fault(value: str | None) -> str:
    """Return the fault of a file with this value, as a predicate."""
    if not value:
        return "does not reserve any port"
    if accepted(value) is None:
        return f"sets {KEY} to {quote(value)}, which the kernel rejects"
    return f"sets {KEY} to {value}"


def _editable(tuned: Tuned) -> bool:
    return not tuned.error and tuned.source.startswith("/etc/") and bool(settings(tuned.text))


def _add_own_file(sysctl: Sysctl, united: PortSet) -> tuple[Edit | None, Sysctl]:
    """Return our own file where there is none, or one that sets nothing, and the facts with it.

    None if it is a link, by which an administrator has disabled it."""
    present = next((file for file in sysctl.reserved_files if file.path == OWN_FILE), None)
    if present and (present.target or settings(present.text)):
        return None, sysctl
    before = present.text if present else None
    text = with_value(before, united) if before else own_file(united)
    edit = Edit(OWN_FILE, before, text, _fault_of_own(sysctl, is_present=present is not None))
    other_files = tuple(file for file in sysctl.reserved_files if file is not present)
    return edit, replace(sysctl, reserved_files=(facts_sysctl.file(OWN_FILE, edit.after), *other_files))


def _fault_of_own(sysctl: Sysctl, *, is_present: bool) -> str:
    overruled = winner(LoadPath.BOOT, sysctl)
    if overruled:
        return f"has to override {overruled.path}, which {fault(overruled.value)}"
    if is_present:
        return f"does not set {KEY}, and neither does any other file that is read at boot"
    return f"does not exist, and no file that is read at boot sets {KEY}"
