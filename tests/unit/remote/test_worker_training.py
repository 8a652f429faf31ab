"""The training step: real ranks over gloo under DistributedDataParallel; and who is named where it goes wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from worker.training import STEPS, TIGHT, flat, in_one_process, judge, make_model

from preflight.probe.operations.local_tests import training_test

Tensor = torch.Tensor
VALUES = 10 * 10 + 10 + 10 * 5 + 5  # parameters of the model


GOOD, GRADIENT, PARAMETER = range(3)  # training steps, the second and the third of which go wrong on one rank


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each of three ranks said of each training step. None leaves a file."""
    place = tmp_path_factory.mktemp("tmp")
    plant = ((1, f"trains gradient {GRADIENT}"), (2, f"trains parameter {PARAMETER}"))
    request = {"size": 3, "tests": [vars(training_test())] * 3, "plant": plant}
    command = [sys.executable, str(Path(__file__).with_name("worker_group.py"))]
    done = subprocess.run(
        command, input=json.dumps(request), env={**os.environ, "TMPDIR": str(place)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert list(place.iterdir()) == []
    said = [[event for event in rank if event["at"] in ("result", "error")] for rank in json.loads(done.stdout)]
    return [[said[rank][step] for rank in range(3)] for step in range(3)]


def test_ranks_that_train_well_end_alike_and_as_one_process_does(trained: list[list[dict[str, Any]]]) -> None:
    for result in trained[GOOD]:
        assert (result["wrong"], result["first"], result["suspect"]) == (0, "", None)
        assert len(result["seconds"]) == STEPS


def test_a_rank_whose_gradient_is_off_is_named_by_all(trained: list[list[dict[str, Any]]]) -> None:
    """Its parameters are those of the others, as wrong as theirs."""
    assert [result["suspect"] for result in trained[GRADIENT]] == [1, 1, 1]
    assert min(result["wrong"] for result in trained[GRADIENT]) > 10


def test_a_rank_whose_parameter_differs_in_its_last_bit_is_named_by_itself(trained: list[list[dict[str, Any]]]) -> None:
    said = [(result["wrong"], result["suspect"]) for result in trained[PARAMETER]]
    assert said == [(0, None), (0, None), (1, 2)]
    assert trained[PARAMETER][2]["first"].startswith(f"parameter 4 of {VALUES} is ")


@pytest.fixture(scope="module")
def right() -> Tensor:
    parameters: Tensor = in_one_process(4)
    return parameters


def table(right: Tensor, changes: dict[int, Tensor]) -> Tensor:
    """Parameters of four ranks, those in `changes` with theirs."""
    return torch.stack([(right + changes.get(rank, 0)).float() for rank in range(4)])


def verdicts(parameters: Tensor, right: Tensor, off: Sequence[int] = (0, 0, 0, 0)) -> list[tuple[int, int | None]]:
    said = [judge(rank, parameters, torch.tensor(off), right, TIGHT) for rank in range(len(parameters))]
    return [(wrong, suspect) for wrong, _, suspect in said]


@pytest.mark.parametrize("size", [1, 4, 300])
def test_training_goes_far_enough_to_tell_a_fault_from_a_rounding(size: int) -> None:
    """Roundings are those of the largest parameters, 3."""
    start = flat(make_model().parameters()).double()
    assert float((in_one_process(size) - start).abs().max()) * TIGHT > 20 * 2.0**-23


def test_ranks_that_differ_by_roundings_are_told_and_nobody_is_named(right: Tensor) -> None:
    bit = 2.0**-22 * torch.ones(VALUES)
    parameters = table(right, {1: bit, 3: -bit})
    assert verdicts(parameters, right) == [(0, None)] * 4
    texts = [judge(rank, parameters, torch.zeros(4), right, TIGHT)[1] for rank in range(4)]
    assert texts == ["", "2 of 4 ranks differ from the others by roundings"] * 2


def test_of_two_ranks_that_differ_neither_is_named(right: Tensor) -> None:
    """Two numbers have one sum in either order, so it is no matter of roundings."""
    two = table(right, {1: 2.0**-22 * torch.ones(VALUES)})[:2]
    said = verdicts(two, right, (0, 0))
    assert min(wrong for wrong, _ in said) > 0
    assert {suspect for _, suspect in said} == {None}


def test_a_rank_with_no_numbers_is_named_and_the_others_are_right(right: Tensor) -> None:
    lost = table(right, {2: torch.full((VALUES,), float("nan"))})
    assert verdicts(lost, right) == [(0, None), (0, None), (VALUES, 2), (0, None)]


def test_all_alike_and_all_wrong_names_nobody(right: Tensor) -> None:
    parameters = table(right, dict.fromkeys(range(4), 0.1 * torch.ones(VALUES)))
    assert verdicts(parameters, right) == [(VALUES, None)] * 4


def test_a_gradient_that_was_off_once_is_wrong_though_the_parameters_are_right(right: Tensor) -> None:
    assert verdicts(table(right, {}), right, (0, 7, 0, 0)) == [(0, None), (7, 1), (0, None), (0, None)]


def test_two_ranks_whose_gradients_are_off_name_themselves(right: Tensor) -> None:
    parameters = table(right, dict.fromkeys(range(4), 0.1 * torch.ones(VALUES)))
    assert verdicts(parameters, right, (5, 0, 9, 0)) == [(VALUES, 0), (VALUES, None), (VALUES, 2), (VALUES, None)]
