"""The worker's NPU lines, and the lab's stand-in, held against the vendor's own torch_npu: names, and what its
import says without CANN; nothing else of it runs.

Needs the package index once a machine (tests/torch_npu_wheel.py).
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.facts.error_meanings import meaning
from tests.torch_npu_wheel import Wheel, fetch

PREFLIGHT = Path(__file__).parents[3] / "preflight"
STAND_IN = PREFLIGHT / "lab" / "standins" / "python" / "torch_npu"
WORKER = ast.parse((PREFLIGHT / "remote" / "worker" / "access.py").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel() -> Wheel:
    return Wheel(fetch())


def used(tree: ast.AST) -> set[str]:
    """Every `torch_npu.…` and `torch.npu.…` of a program, the latter as what it is there: torch_npu.npu."""
    chains = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {
        name.replace("torch.npu", "torch_npu.npu", 1) for name in chains if name.startswith(("torch_npu.", "torch.npu"))
    }


def test_every_name_that_the_worker_uses_is_defined(wheel: Wheel) -> None:
    names = used(WORKER)
    assert {"torch_npu.npu.set_device", "torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options"} <= names
    assert [name for name in sorted(names) if not wheel.has(name)] == []


def test_the_wheel_is_asked_in_earnest(wheel: Wheel) -> None:
    """Else the test before could not fail."""
    for name in ("torch_npu.npu.set_devices", "torch_npu.tensor_device", "torch_npu._C._distributed_c10d.Nothing"):
        assert not wheel.has(name)


def test_torch_npu_is_what_torch_calls_npu(wheel: Wheel) -> None:
    """`torch.npu`, `Tensor.npu` and the backend hccl come about by these calls."""
    assert "'npu', torch_npu.npu" in wheel.calls("torch._register_device_module")
    assert "'npu'" in wheel.calls("torch.utils.rename_privateuse1_backend")
    assert any("True" in call for call in wheel.calls("torch.utils.generate_methods_for_privateuse1_backend"))
    backends = wheel.calls("torch.distributed.Backend.register_backend")
    assert any(call.startswith("'hccl', ") and "['npu']" in call for call in backends)


def test_the_worker_gives_functions_no_more_than_they_take(wheel: Wheel) -> None:
    for node in ast.walk(WORKER):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name.startswith("torch.npu."):
            parameters = wheel.parameters(name.replace("torch.npu", "torch_npu.npu", 1))
            assert parameters is not None, name
            assert len(node.args) <= len(parameters), name
            assert {word.arg for word in node.keywords} <= set(parameters), name


def test_the_options_of_hccl_are_those_that_torch_npu_reads(wheel: Wheel) -> None:
    """They are a dictionary, and a key that nobody reads is no error there."""
    options = wheel.header("ProcessGroupHCCL.hpp").partition("struct Options")[2].partition("\n  };")[0]
    assert " hccl_config;" in options
    function = next(n for n in ast.walk(WORKER) if isinstance(n, ast.FunctionDef) and n.name == "_hccl_config")
    keys = set(_keys(function))
    assert keys == {"group_name", "hccl_buffer_size"}
    assert all(wheel.contains(f"Value type of {key} should be ") for key in keys)
    assert not wheel.contains("Value type of group_nom should be ")


def _keys(function: ast.FunctionDef) -> Iterator[str]:
    """The constant keys that a function sets: {"key": …} and config["key"] = …"""
    for node in ast.walk(function):
        keys = node.keys if isinstance(node, ast.Dict) else []
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            keys = [node.slice]
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def test_hccl_s_process_group_has_every_operation_that_the_probe_runs(wheel: Wheel) -> None:
    header = wheel.header("ProcessGroupHCCL.hpp")
    collectives = "allreduce broadcast reduce allgather _allgather_base reduce_scatter _reduce_scatter_base"
    operations = f"{collectives} gather scatter alltoall alltoall_base send recv barrier".split()
    assert [name for name in operations if f" {name}(" not in header] == []
    assert " all_to_some(" not in header


def test_the_stand_in_offers_no_name_that_the_real_one_lacks(wheel: Wheel) -> None:
    names = set(_offered())
    assert {"torch_npu.__version__", "torch_npu.npu.mem_get_info"} <= names
    assert [name for name in sorted(names) if not wheel.has(name)] == []


def _offered() -> Iterator[str]:
    """The stand-in's modules and what they define, but for names with an underscore, which are its own affair."""
    for path in STAND_IN.rglob("*.py"):
        parts = path.relative_to(STAND_IN).with_suffix("").parts
        module = ".".join(("torch_npu", *(part for part in parts if part != "__init__")))
        if any(part.startswith("_") and part not in ("__init__", "_C", "_distributed_c10d") for part in parts):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch_npu"):
                names = [alias.asname or alias.name for alias in node.names]
            yield from (f"{module}.{name}" for name in names if not name.startswith("_") or name == "__version__")


def test_the_stand_in_s_functions_take_what_the_real_ones_take(wheel: Wheel) -> None:
    for node in ast.parse((STAND_IN / "npu.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert [arg.arg for arg in node.args.args] == wheel.parameters(f"torch_npu.npu.{node.name}"), node.name


def test_what_the_real_one_says_where_cann_is_not_there_is_understood() -> None:
    """It is imported here, in a process of its own, which is as far as it comes without CANN."""
    command = [sys.executable, "-c", "import torch_npu"]
    environment = {**os.environ, "PYTHONPATH": str(fetch().parent), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: libhccl.so: cannot open shared object file")
    found = meaning(last)
    assert found is not None
    assert "CANN's libraries are not found" in found.cause


@pytest.mark.parametrize("library", ["hccl", "ascendcl", "acl_op_compiler", "ge_runner", "graph", "atb"])
def test_a_missing_library_that_the_real_one_needs_is_understood(wheel: Wheel, library: str) -> None:
    assert wheel.contains(f"lib{library}.so")
    found = meaning(f"ImportError: lib{library}.so: cannot open shared object file: No such file or directory")
    assert found is not None
    assert "set_env.sh" in found.remedy


def test_the_page_of_what_has_never_run_names_every_line_of_the_device_table() -> None:
    page = (PREFLIGHT.parent / "docs" / "never-run.md").read_text(encoding="utf-8")
    functions = {node.name for node in ast.walk(WORKER) if isinstance(node, ast.FunctionDef)}
    own = {name for name in functions if name.endswith(("_npu", "_of_hccl"))}
    table = next(node for node in ast.walk(WORKER) if isinstance(node, ast.Dict) and "'hccl'" in ast.unparse(node))
    row = next(
        value for key, value in zip(table.keys, table.values, strict=True) if key and ast.unparse(key) == "'hccl'"
    )
    assert isinstance(row, ast.Call)
    assert {ast.unparse(arg) for arg in row.args} == own
    assert [name for name in sorted(own) if f"`{name}`" not in page] == []
