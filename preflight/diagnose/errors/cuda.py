"""Errors of the CUDA runtime, its libraries and the NVIDIA driver, as torch and NCCL report them.

The messages are those of cudaGetErrorString (CUDA 10 to 13), cuBLAS and cuDNN; torch puts "CUDA error: " in front, NCCL
"Cuda failure".
"""

from collections.abc import Iterator

from preflight.diagnose.types import Role, Sign, Weight

_FULL = "the GPU's memory is full: this process or another one on the GPU uses it"
_SMALLER = (
    "find other processes on the GPU, and end leftovers (GPU108). If there are none, use a smaller batch\nnvidia-smi"
)
_RESET = "check the GPU's errors, then reset it (GPU103, GPU104)\ndmesg | grep Xid\nnvidia-smi -q -d ECC,ROW_REMAPPER"
_BLOCKING = "run the program with CUDA_LAUNCH_BLOCKING=1, so that the traceback shows the failing line"
_LINES = f"{_BLOCKING}. Also check the kernel log for Xid errors\ndmesg | grep Xid"
_VISIBLE = "compare CUDA_VISIBLE_DEVICES and the ranks on each host with the host's GPUs (GPU101)\nnvidia-smi -L"
_DRIVER = "update the driver, or install a torch build for an older CUDA (VER114)"
_BUSY = "another process holds the GPU, or its compute mode is exclusive or prohibited"
_FIND_HOLDER = "check the processes and the compute mode of that GPU (GPU108)\nnvidia-smi"

# Message, id, cause, next step.
_MESSAGES = (
    ("uncorrectable ECC error", "gpu-ecc", "the GPU's memory is damaged (uncorrectable ECC error)", _RESET),
    (
        "uncorrectable NVLink error",
        "gpu-nvlink",
        "an NVLink of the GPU had an uncorrectable error",
        "check the NVLink errors, then reset the GPU (GPU115, GPU122)\n"
        "nvidia-smi nvlink -e\ndmesg | grep -E 'Xid.* (74|14[4-9]|150)'",
    ),
    ("uncorrectable contained", "gpu-ecc", "the GPU's memory is damaged (contained error)", _RESET),
    ("an illegal memory access", "gpu-access", "a GPU kernel of the program read or wrote outside its memory", _LINES),
    ("misaligned address", "gpu-access", "a GPU kernel of the program used a misaligned address", _LINES),
    ("an illegal instruction", "gpu-access", "a GPU kernel ran an illegal instruction", _LINES),
    ("invalid program counter", "gpu-access", "a GPU kernel jumped to an invalid address", _LINES),
    (
        "device-side assert triggered",
        "gpu-assert",
        "a GPU kernel of the program found an index or value out of range",
        _BLOCKING,
    ),
    ("unspecified launch failure", "gpu-launch", "a GPU kernel crashed", _LINES),
    ("hardware stack error", "gpu-launch", "a GPU kernel crashed (hardware stack error)", _LINES),
    ("the launch timed out", "gpu-launch", "a GPU kernel ran longer than the display driver allows", _LINES),
    (
        "system not yet initialized",
        "gpu-fabric",
        "the fabric manager is not running or has not finished starting",
        "start and enable the fabric manager (GPU112, GPU114)\nsystemctl enable --now nvidia-fabricmanager",
    ),
    (
        "all CUDA-capable devices are busy",
        "gpu-busy",
        _BUSY,
        _FIND_HOLDER,
    ),
    (
        "CUDA-capable device(s) is/are busy",
        "gpu-busy",
        _BUSY,
        _FIND_HOLDER,
    ),
    (
        "no CUDA-capable device",
        "gpu-missing",
        "the driver, the container or CUDA_VISIBLE_DEVICES hides all GPUs from the process",
        "list the GPUs where the job runs (GPU101). For containers use docker run --gpus all\nnvidia-smi -L",
    ),
    (
        "invalid device ordinal",
        "gpu-number",
        "the program asked for a GPU number that does not exist in this process",
        _VISIBLE,
    ),
    ("driver version is insufficient", "gpu-driver", "the NVIDIA driver is too old for this CUDA", _DRIVER),
    ("forward compatibility was attempted", "gpu-driver", "the driver does not support this CUDA on this GPU", _DRIVER),
    ("the provided PTX was compiled", "gpu-driver", "the NVIDIA driver is too old for this CUDA", _DRIVER),
    (
        "no kernel image is available",
        "gpu-arch",
        "this torch or extension was not built for this GPU model",
        "install a build that supports the GPU's compute capability (TORCH_CUDA_ARCH_LIST)",
    ),
    (
        "GPU is lost",
        "nvidia-lost",
        "the GPU has fallen off the bus",
        "check the kernel log, then restart the host (GPU102)\ndmesg | grep Xid",
    ),
)
# Prefixes of torch, NCCL and C++ programs.
_IN_FRONT = r"(?:CUDA|[Cc]uda|\bHIP\b|\bError \d{1,4}:|NCCL WARN)"


def _signs() -> Iterator[Sign]:
    for message, id_, cause, step in _MESSAGES:
        yield Sign(id_, Role.OWN, (message,), cause, step, pattern=_IN_FRONT)


SIGNS = (
    Sign(
        "device-memory",
        Role.OWN,
        ("CUDA out of memory",),
        _FULL,
        _SMALLER,
        pattern=r"Error: CUDA out of memory|CUDA out of memory\. Tried",
    ),
    Sign("device-memory", Role.OWN, ("CUBLAS_STATUS_ALLOC_FAILED",), _FULL, _SMALLER),
    Sign(
        "device-memory",
        Role.OWN,
        ("out of memory",),
        _FULL,
        _SMALLER,
        pattern=r"CUDA error: out of memory|(?:CUDA|[Cc]uda) failure.{0,60}out of memory",
    ),
    Sign("device-memory", Role.OWN, ("Not enough memory", "mem-fraction-static"), _FULL, _SMALLER),
    Sign("device-memory", Role.OWN, ("No available memory for the cache blocks",), _FULL, _SMALLER),
    Sign("device-memory", Role.OWN, ("ree memory on device", "less than desired"), _FULL, _SMALLER),
    *_signs(),
    Sign(
        "gpu-library",
        Role.OWN,
        ("CUBLAS_STATUS_",),
        "cuBLAS failed ({status}), because of an earlier GPU error, lack of memory or incompatible libraries",
        _LINES,
        pattern=r"\bCUBLAS_STATUS_(?P<status>(?!SUCCESS)[A-Z_]{1,40})",
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "gpu-library",
        Role.OWN,
        ("CUDNN_STATUS_",),
        "cuDNN failed ({status}), because of an earlier GPU error, lack of memory or incompatible libraries",
        _LINES,
        pattern=r"\bCUDNN_STATUS_(?P<status>(?!SUCCESS)[A-Z_]{1,40})",
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "gpu-shutdown",
        Role.WAIT,
        ("driver shutting down",),
        "the program was already ending",
        "find the first error",
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "gpu-error",
        Role.OWN,
        ("CUDA error: ",),
        "the GPU or its driver failed ({message})",
        _RESET,
        pattern=r"CUDA error: (?P<message>[^\n.;]{1,80})",
        weight=Weight.SYMPTOM,
    ),
    Sign(
        "gpu-error",
        Role.OWN,
        ("uda failure",),
        "the GPU or its driver failed ({message})",
        _RESET,
        pattern=r"[Cc]uda failure(?: \d{1,4})? '(?P<message>[^'\n]{1,80})'",
        weight=Weight.SYMPTOM,
    ),
)
