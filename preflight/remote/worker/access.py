"""How a device is reached, per backend. Nothing but this package touches torch or torch_npu."""

import collections
import os

# Per backend: load what the backend needs; open device i; where its tensors live; wait until
# it has done its work; (free, total) bytes of its memory, or None; the options of a process group, or None. What only a
# real NPU runs is in the functions named `…_npu` and `…_hccl`: docs/never-run.md.
Access = collections.namedtuple("Access", "load open place synchronise memory options")


def _load_cuda():
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch.cuda.is_available() is False: no driver, no device, or a torch built without CUDA")
    if not torch.distributed.is_nccl_available():
        raise RuntimeError("this torch is built without NCCL")


def _open_cuda(index):
    import torch

    torch.cuda.set_device(index)
    torch.zeros(1, device="cuda:%d" % index)


def _cuda():
    import torch

    return torch.cuda


def _memory_of_cuda(index):
    """mem_get_info is younger than some torch versions in use."""
    ask = getattr(_cuda(), "mem_get_info", None)
    return tuple(ask(index)) if ask else None


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
        lambda index: "cuda:%d" % index,
        lambda: _cuda().synchronize(),
        _memory_of_cuda,
        _nothing,
    ),
    "hccl": Access(_load_npu, _open_npu, _place_of_npu, _synchronise_npu, _memory_of_npu, _options_of_hccl),
}
