"""How a device is reached, per backend. Nothing but this package touches torch or torch_npu."""

import collections
import os

# Per backend: load what the backend needs; open device i; where its tensors live; wait until it has done its work;
# (free, total) bytes of its memory, or None; the options of a process group, or None; what device i is, in words that
# no other device of the cluster has, "" where that cannot be told; whether it multiplies a type. What only a real NPU
# runs is in the functions named `…_npu` and `…_hccl`, and what only a GPU does in `…_cuda`: docs/never-run.md.
Access = collections.namedtuple("Access", "load open place synchronise memory options identity multiplies")
Access.__new__.__defaults__ = (lambda _: "", lambda _: True)


def _load_cuda():
    import torch

    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        raise RuntimeError("torch %s is a CPU build: install one that is built with CUDA" % torch.__version__)
    if not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        told = "" if visible is None else " (CUDA_VISIBLE_DEVICES=%s)" % visible[:100]
        raise RuntimeError("no GPU is visible: torch.cuda.is_available() is False%s" % told)
    if not torch.distributed.is_nccl_available():
        raise RuntimeError("torch %s is built without NCCL" % torch.__version__)


def _open_cuda(index):
    """NCCL takes the device that is current when the process group is made, so it is set before."""
    import torch

    there = torch.cuda.device_count()
    if index >= there:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
        raise RuntimeError(
            "GPU %d is not visible: torch sees %d (CUDA_VISIBLE_DEVICES is %s)" % (index, there, visible[:100])
        )
    torch.cuda.set_device(index)
    torch.zeros(1).cuda(index)


def _place_of_cuda(index):
    """Asked of torch, as for an NPU: the tensors of a stand-in live elsewhere."""
    import torch

    return torch.zeros(1).cuda(index).device


def _synchronise_cuda():
    import torch

    torch.cuda.synchronize()


def _memory_of_cuda(index):
    """mem_get_info is younger than some torch versions in use."""
    import torch

    ask = getattr(torch.cuda, "mem_get_info", None)
    return tuple(ask(index)) if ask else None


def _identity_of_cuda(index):
    """The PCI bus, or the GPU's own id where torch is too old to tell the bus, on the machine that has booted so: its
    containers have one such number, whatever their host names are. NCCL tells GPUs apart in this way, too."""
    import torch

    about = torch.cuda.get_device_properties(index)
    bus = getattr(about, "pci_bus_id", None)
    if bus is not None:
        gpu = "PCI %04x:%02x:%02x" % (about.pci_domain_id, bus, about.pci_device_id)
    else:
        gpu = str(getattr(about, "uuid", ""))
    return "GPU %s of the machine with boot id %s" % (gpu, _boot_id()) if gpu else ""


def _boot_id():
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename


def _multiplies_cuda(dtype):
    """bfloat16 came with Ampere; older GPUs refuse it, or take a hundred times as long, which torch calls supported."""
    import torch

    return dtype != "bfloat16" or bool(torch.version.hip) or torch.cuda.get_device_capability() >= (8, 0)


def _load_npu():
    import torch_npu  # noqa: F401  (registers torch.npu, Tensor.npu and the backend hccl)


def _open_npu(index):
    """HCCL takes the device that is current when the process group is made, so it is set before."""
    import torch

    torch.npu.set_device(index)
    torch.zeros(1).npu(index)


def _place_of_npu(index):
    """Asked of torch_npu: npu:<index>, but the tensors of a stand-in live elsewhere."""
    import torch

    return torch.zeros(1).npu(index).device


def _synchronise_npu():
    import torch

    torch.npu.synchronize()


def _memory_of_npu(index):
    import torch

    return tuple(torch.npu.mem_get_info(index))


_BUFFER = 200  # MB, what HCCL takes where nobody says anything; twice a communicator
_NAME = 31  # characters of a communicator's name in HCCL's logs


def _options_of_hccl(spec):
    """Name the communicator, so that HCCL's own logs tell which group a line is about, and take no more memory than
    the largest test can use; what the job's environment says of that comes first. torch_npu 2.1 has no such options.
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
