"""STAND-IN for torch.npu: devices can be counted, chosen and held; a chosen one shows in npu-smi's process table."""

import os

from torch_npu import _errors, _lab

_NAMES = {"atlas-a1": "Ascend910A", "atlas-a2": "Ascend910B3", "atlas-a3": "Ascend910_9382"}
_HBM_MB = {"atlas-a1": 32768, "atlas-a2": 65536, "atlas-a3": 65536}
_HBM_OF_DRIVER_MB = 3072

_held = {}
_current = None


def is_available():
    """Return whether this host has a device."""
    return device_count() > 0


def device_count():
    """Return the number of devices that this process may use."""
    return len(_visible_devices())


def _visible_devices():
    """Return the physical ids that ASCEND_RT_VISIBLE_DEVICES leaves; reading stops at the first thing amiss."""
    count = _lab.devices()
    wanted = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if wanted is None:
        return list(range(count))
    chosen = []
    for word in wanted.split(","):
        if not word.strip().isdigit() or int(word) >= count or (chosen and int(word) <= chosen[-1]):
            break
        chosen.append(int(word))
    return chosen


def set_device(device):
    """Open a device (an index, or "npu:INDEX") for this process and make it the current one."""
    global _current
    index = int(str(device).rpartition(":")[2])
    visible = _visible_devices()
    if not 0 <= index < len(visible):
        raise RuntimeError(
            f"Invalid device ID: {index}, error code is 107001; the valid range is [0, {len(visible)}) (stand-in)"
        )
    physical = visible[index]
    _lab.get_stuck(physical, "open")
    if _lab.has_fault(physical, "dead"):
        raise _errors.open_failed(physical)
    if physical not in _held:
        _held[physical] = _lab.lock(_lab.PRIVATE / "process" / str(physical) / str(os.getpid()))
    _current = index


def current_device():
    """Return the index of the current device; the first use of a process opens device 0."""
    if _current is None:
        set_device(0)
    return _current


def _physical_device():
    """Return the physical id of the current device."""
    return _visible_devices()[current_device()]


def synchronize(device=None):
    """Do nothing: nothing runs behind the caller's back."""


def empty_cache():
    """Do nothing: there is no cache."""


def mem_get_info(device=None):  # noqa: ARG001
    """Return (free, total) bytes of a device that nobody computes on."""
    total = _HBM_MB[_lab.product()]
    return (total - _HBM_OF_DRIVER_MB) << 20, total << 20


def get_device_name(device_name=None):  # noqa: ARG001
    """Return the product's chip name."""
    return _NAMES[_lab.product()]
