"""The faults that a lab can have: one module for each area, with how a fault is made and undone.

A fault acts on the real object wherever there is one (a link, a queue, a rule, a process). `break` records the previous
values in the lab's state, so that `fix` restores exactly these. Neither checks nor probe know of this package.
"""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

from preflight.lab import state
from preflight.lab.faults import addresses, arp, devices, fabric, gpus, host, leaves, overload, ranks, software
from preflight.lab.faults.fault import LOSS, Fault, FaultPlace
from preflight.lab.lifecycle import hosts_of, require_root, selected
from preflight.lab.state import Break, State
from preflight.model.errors import UsageError

FAULTS: tuple[Fault, ...] = (
    *fabric.FAULTS,
    *leaves.FAULTS,
    *arp.FAULTS,
    *addresses.FAULTS,
    *devices.FAULTS,
    *gpus.FAULTS,
    *ranks.FAULTS,
    *host.FAULTS,
    *overload.FAULTS,
    *software.FAULTS,
)
WITH_PERCENT = ("random-loss", "random-loss-out")


def describe() -> list[dict[str, Any]]:
    """Return the table of faults as `lab faults -o json` prints it."""
    keys = ("name", "scope", "seen_by", "stand_in", "what")
    return [{key: getattr(fault, key) for key in keys} for fault in FAULTS]


def break_it(name: str, directory: Path, on: str | None, device: int | None, percent: int | None = None) -> str:
    """Make a fault and return one sentence about it. Raise UsageError for a place that cannot have it."""
    require_root()
    fault, directory = _fault(name), directory.resolve()
    if percent is not None and (name not in WITH_PERCENT or not 0 < percent <= 100):
        raise UsageError(f"--percent is for {' and '.join(WITH_PERCENT)}, from 1 to 100.")
    with state.locked(_existing(directory)):
        lab = state.load(directory)
        place = replace(_place(fault, lab, directory, on, device), percent=percent or LOSS)
        entry = Break(name, place.host.name, place.device if fault.scope == "device" else None, {})
        if any((b.fault, b.host, b.device) == (entry.fault, entry.host, entry.device) for b in lab.breaks):
            raise UsageError(
                f"{name} on {_where(entry)} is already broken. To undo it, run `preflight lab fix {name}`."
            )
        entry = Break(entry.fault, entry.host, entry.device, fault.make(place))
        lab.with_breaks((*lab.breaks, entry)).save(directory)
    default_note = " (no --device: the first)" if entry.device is not None and device is None else ""
    return f"{name} on {_where(entry)}{default_note}: {fault.what}"


def fix(name: str | None, directory: Path) -> list[str]:
    """Undo all faults, or those with one name, the latest first. Return a sentence for each."""
    require_root()
    if name is not None:
        _fault(name)
    directory = directory.resolve()
    sentences = []
    with state.locked(_existing(directory)):
        lab = state.load(directory)
        hosts = {lab_host.name: lab_host for lab_host in hosts_of(lab, directory)}
        for entry in reversed(lab.breaks):
            if name in (None, entry.fault):
                place = FaultPlace(lab, directory, hosts[entry.host], entry.device or 0)
                _fault(entry.fault).undo(place, entry.undo)
                lab = lab.with_breaks(tuple(earlier for earlier in lab.breaks if earlier is not entry))
                lab.save(directory)
                sentences.append(f"{entry.fault} on {_where(entry)} is fixed.")
    return sentences or [f"nothing to fix: {name or 'no fault'} is not broken." if name else "nothing is broken."]


def _existing(directory: Path) -> Path:
    state.load(directory)
    return directory


def _fault(name: str) -> Fault:
    names = [fault.name for fault in FAULTS]
    if name not in names:
        matches = difflib.get_close_matches(name, names, n=1)
        raise UsageError(
            f"there is no fault {name!r}; {f'did you mean {matches[0]}?' if matches else ', '.join(names)}"
        )
    return FAULTS[names.index(name)]


def _place(fault: Fault, lab: State, directory: Path, on: str | None, device: int | None) -> FaultPlace:
    lab_host = selected(hosts_of(lab, directory), on)
    if fault.scope == "host" and device is not None:
        raise UsageError(f"{fault.name} is a fault of a host: leave out --device.")
    if fault.scope == "device" and not 0 <= (device or 0) < lab.spec.devices:
        raise UsageError(f"{lab_host.name} has no device {device or 0}; the lab has {lab.spec.devices} a host.")
    if fault in gpus.FAULTS and not lab.spec.is_gpu:
        raise UsageError(f"{fault.name} is a fault of GPUs, and this lab has the product {lab.spec.product}.")
    if fault.scope == "device" and fault not in gpus.FAULTS and not lab.spec.is_npu:
        raise UsageError(f"{fault.name} is a fault of NPUs, and this lab has the product {lab.spec.product}.")
    if fault in software.FAULTS and not lab.spec.is_npu:
        raise UsageError(f"a lab of product {lab.spec.product} has no driver stand-in.")
    return FaultPlace(lab, directory, lab_host, device or 0)


def _where(entry: Break) -> str:
    return entry.host if entry.device is None else f"{entry.host}/{entry.device}"
