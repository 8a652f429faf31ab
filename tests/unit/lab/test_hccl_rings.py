"""To whom the lab's hccl connects first: along the levels of HCCL's collectives."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FIBRES = Path(__file__).parents[3] / "preflight/lab/standins/python/torch_npu/_fibres.py"


@pytest.fixture
def fibres(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module alone: what stands beside it in the stand-in needs torch and a lab's host."""
    package = ModuleType("torch_npu")
    package.__dict__.update(_errors=None, _lab=None)
    monkeypatch.setitem(sys.modules, "torch_npu", package)
    spec = importlib.util.spec_from_file_location("fibres", FIBRES)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("ranks", "after"),
    [
        pytest.param(["a0", "a1", "b0", "b1"], ["a1 b0", "a0 b1", "b1 a0", "b0 a1"], id="two servers"),
        pytest.param(["a0", "a1", "a2"], ["a1", "a2", "a0"], id="within a server"),
        pytest.param(["a3", "b3", "c3"], ["b3", "c3", "a3"], id="along a rail"),
        pytest.param(["a0", "a1", "b1"], ["a1", "b1", "a0"], id="not the same devices: one ring"),
        pytest.param(["a0"], [""], id="alone"),
    ],
)
def test_a_rank_connects_to_the_next_within_its_server_and_along_its_rail(
    fibres: ModuleType, ranks: list[str], after: list[str]
) -> None:
    described = [{"server": name[0], "device": int(name[1])} for name in ranks]
    found = [fibres.neighbours(described, rank) for rank in range(len(ranks))]
    assert [" ".join(f"{one['server']}{one['device']}" for one in next_) for next_ in found] == after
