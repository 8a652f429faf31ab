"""Access to devices, per backend. Only this package uses torch or torch_npu."""

import collections
import os
import warnings

import torch

# Functions of a backend. `load` loads its libraries. `open` opens device i. `place` returns the torch device of its
# tensors. `synchronise` waits until the device has done its work. `memory` returns (free, total) bytes of its memory,
# or None. `options` returns the options of a process group, or None. `identity` returns a name of device i that no
# other device of the cluster has, or "" if it is unknown. `multiplies` is true if the device multiplies a type. Code
# that only a real NPU runs is in the functions named `…_npu` and `…_hccl`, and code that only a GPU runs in `…_cuda`
# (docs/never-run.md).
Access = collections.namedtuple("Access", "load open place synchronise memory options identity multiplies")
Access.__new__.__defaults__ = (lambda _: "", lambda _: True)


def _load_cuda():
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        raise RuntimeError("torch %s is a CPU build: install one that is built with CUDA" % torch.__version__)
    with warnings.catch_warnings(record=True) as reasons:  # torch only warns of a driver that is too old, or broken
        warnings.simplefilter("always")
        is_available = torch.cuda.is_available()
    if not is_available:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        setting = "" if visible is None else " (CUDA_VISIBLE_DEVICES=%s)" % visible[:100]
        reason = ". torch warns: %s" % str(reasons[0].message)[:300] if reasons else ""
        raise RuntimeError("no GPU is visible: torch.cuda.is_available() is False%s%s" % (setting, reason))
    if not torch.distributed.is_nccl_available():
        raise RuntimeError("torch %s is built without NCCL" % torch.__version__)


def _open_cuda(index):
    """Open the device and make it current: NCCL uses the current device when the process group is made."""
    count = torch.cuda.device_count()
    if index >= count:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        raise RuntimeError(
            "GPU %d is not visible: torch sees %d (CUDA_VISIBLE_DEVICES is %s)" % (index, count, visible[:100])
        )
    torch.cuda.set_device(index)
    torch.zeros(1).cuda(index)


def _place_of_cuda(index):
    """Return the device on which torch puts a tensor: the tensors of a stand-in are elsewhere."""
    return torch.zeros(1).cuda(index).device


def _synchronise_cuda():
    torch.cuda.synchronize()


def _memory_of_cuda(index):
    """Return (free, total) bytes; None if torch is older than mem_get_info."""
    query = getattr(torch.cuda, "mem_get_info", None)
    return tuple(query(index)) if query else None


def _identity_of_cuda(index):
    """Return the GPU's PCI bus and the machine's boot id. If torch is too old to report the bus, use the GPU's own id.

    All containers of a machine have the same boot id, whatever their host names are. NCCL tells GPUs apart in this way,
    too.
    """
    properties = torch.cuda.get_device_properties(index)
    bus = getattr(properties, "pci_bus_id", None)
    if bus is not None:
        gpu = "PCI %04x:%02x:%02x" % (properties.pci_domain_id, bus, properties.pci_device_id)
    else:
        gpu = str(getattr(properties, "uuid", ""))
    return "GPU %s of the machine with boot id %s" % (gpu, _boot_id()) if gpu else ""


def _boot_id():
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename


def _multiplies_cuda(dtype):
    """True unless the type is bfloat16 and the GPU is older than Ampere.

    Such GPUs refuse bfloat16, or take a hundred times as long, which torch calls supported.
    """
    return dtype != "bfloat16" or bool(torch.version.hip) or torch.cuda.get_device_capability() >= (8, 0)


def _load_npu():
    import torch_npu  # noqa: F401  (registers torch.npu, Tensor.npu and the backend hccl)


def _open_npu(index):
    """Open the device and make it current: HCCL uses the current device when the process group is made."""
    torch.npu.set_device(index)
    torch.zeros(1).npu(index)


def _place_of_npu(index):
    """Return the device on which torch_npu puts a tensor: npu:<index>, but elsewhere for a stand-in."""
    return torch.zeros(1).npu(index).device


def _synchronise_npu():
    torch.npu.synchronize()


def _memory_of_npu(index):
    return tuple(torch.npu.mem_get_info(index))


_BUFFER = 200  # MB that HCCL takes by default, twice for each communicator
_NAME = 31  # characters of a communicator's name in HCCL's logs


def _options_of_hccl(spec):
    """Return options that name the communicator and limit its memory. torch_npu 2.1 has no such options.

    By the name HCCL's own logs tell which group a line is about. The memory is no more than the largest test can use,
    unless the job's environment sets it.
    """
    import torch_npu

    options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
    if hasattr(options, "hccl_config"):
        options.hccl_config = _hccl_config(spec, os.environ)
    return options


def _hccl_config(spec, environment):
    config = {"group_name": ("preflight-" + spec["group"])[:_NAME]}
    if not environment.get("HCCL_BUFFSIZE"):
        largest = max([test["bytes"] for test in spec["tests"]] or [0])
        config["hccl_buffer_size"] = min(_BUFFER, max(16, -(-largest >> 20)))
    return config


def _nothing(*_):
    return None


ACCESS = {
    "gloo": Access(_nothing, _nothing, lambda _: "cpu", _nothing, _nothing, _nothing),
    "nccl": Access(
        _load_cuda,
        _open_cuda,
        _place_of_cuda,
        _synchronise_cuda,
        _memory_of_cuda,
        _nothing,
        _identity_of_cuda,
        _multiplies_cuda,
    ),
    "hccl": Access(_load_npu, _open_npu, _place_of_npu, _synchronise_npu, _memory_of_npu, _options_of_hccl),
}
