"""What a rank's last words are taken to mean: each known text has one meaning, and everything else has none."""

import re
from pathlib import Path

import pytest

from preflight.checks.engine.registry import all_checks
from preflight.facts import error_meanings as last_words
from preflight.facts.error_meanings import meaning

LIBHCCL = (
    "ImportError: libhccl.so: cannot open shared object file: No such file or directory. Please check that the cann "
    "package is installed. Please run 'source set_env.sh' in the CANN installation path. [ERROR] 2026-01-02-03:04:05 "
    "(PID:7, Device:-1, RankID:-1) ERR00008 PTA resource not found"
)


@pytest.mark.parametrize(
    ("text", "cause", "remedy"),
    [
        (LIBHCCL, "CANN's libraries are not found", "set_env.sh"),
        ("ImportError: libascend_hal.so: cannot open shared object file", "driver's libraries", "driver/lib64"),
        ("Exception: ASCEND_OPP_PATH environment variable is not set.", "is only partly set", "set_env.sh"),
        ("Exception: ASCEND_HOME_PATH : /opt/x does not exist.", "a directory that does not exist", "set_env.sh"),
        ("RuntimeError: Two accelerators cannot be used at the same time in PyTorch: npu and cuda. ERR00007 PTA",
         "another accelerator", "CPU build"),
        ("ImportError: /x/libtorch_npu.so: undefined symbol: MsprofSysCycleTime", "incompatible", "VER107"),
        ("ModuleNotFoundError: No module named 'tbe.common'", "needs a Python package", "set_env.sh"),
        ("ModuleNotFoundError: No module named 'torch'", "torch is not installed", "pip install torch"),
        ("ModuleNotFoundError: No module named 'torch_npu'", "not installed", "under [probe]"),
        ("dcmi model initialized failed, because the device is used. ret is -8020", "container", "dcmi"),
        ("RuntimeError: HCCL function error: HcclCommInitRootInfo(1), error code is 7 [ERROR] ERR02200 DIST call hccl "
         "api failed. HCCP_Process_Initialization_Failure(EJ0001): Failed to initialize", "earlier job", "10 s"),
        ("EI0015: 2024-04-24-06:32:27.781.599 topo exchange server get socket timeout!", "host NIC", "FWL104"),
        ("HCCL function error: HcclAllreduce, error code is 11", "TCP connection", "FWL101"),
        ("NPU function error: aclrtSetDevice, error code is 107001", "no device with the requested number", "npu-smi"),
        ("Open device 0 failed, runtime result = 507033. error code is 507033", "could not be opened", "NPU113"),
        ("This is an NPU error, NPU error code is: 1; error code is 507899", "internal error", "mount"),
        ("hcclCommInitRootInfoConfig(...), error code is 1", "driver is too old", "matrix"),
    ],
)  # fmt: skip
def test_known_words_have_a_cause_and_a_remedy(text: str, cause: str, remedy: str) -> None:
    found = meaning(text)
    assert found is not None
    assert cause in found.cause
    assert remedy in found.step


@pytest.mark.parametrize(
    "text", ["", "RuntimeError: something else", "error code is 1", "EI9999: internal", "[gloo] connection closed"]
)
def test_other_words_have_no_meaning(text: str) -> None:
    assert meaning(text) is None


def test_every_code_of_hccl_has_a_meaning() -> None:
    codes = [f"EI{number:04}" for number in range(1, 21)] + [f"EJ{number:04}" for number in range(1, 5)]
    assert [code for code in codes if meaning(f"Some_Title({code}): words") is None] == []


def test_remedies_name_checks_that_exist() -> None:
    named = set(re.findall(r"\b[A-Z]{3}\d{3}\b", Path(last_words.__file__).read_text(encoding="utf-8")))
    assert named
    assert named <= set(all_checks())
