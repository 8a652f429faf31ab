"""Whether slurmctld calls PrologSlurmctld, from files in the place of this machine's."""

import json
import os
from pathlib import Path

import pytest

from preflight.gate.slurm_running import Controller, running, told

# In 2096: the test files change now, and have to be older than slurmctld.
BOOT, TICKS = 4_000_000_000, os.sysconf("SC_CLK_TCK")
STAT = "42 ({}) S 1 42 42 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 9 0 {} 0 0\n"
CONTROLLER = {"context": "controller", "time": BOOT + 150.0}


def machine(tmp_path: Path, name: str = "slurmctld", *records: object) -> Controller | None:
    """slurmctld started 100 s after the boot; slurm.conf changed 120 s after it."""
    (tmp_path / "42").mkdir(exist_ok=True)
    (tmp_path / "stat").write_text(f"cpu 1 2\nbtime {BOOT}\n")
    (tmp_path / "42/stat").write_text(STAT.format(name, 100 * TICKS))
    (tmp_path / "gate.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records) + "{cut off")
    conf = tmp_path / "slurm.conf"
    conf.touch()
    os.utime(conf, (BOOT + 120, BOOT + 120))
    return running([str(conf)], str(tmp_path), str(tmp_path / "gate.jsonl"))


def test_without_a_slurmctld_nothing_is_told(tmp_path: Path) -> None:
    assert machine(tmp_path, "slurmd") is None


@pytest.mark.parametrize("namespace", ["pid:[1]", "pid:[2]"])
def test_the_slurmctld_of_a_container_is_not_this_systems(tmp_path: Path, namespace: str) -> None:
    for process, own in (("42", namespace), ("self", "pid:[1]")):
        (tmp_path / process / "ns").mkdir(parents=True)
        (tmp_path / process / "ns/pid").symlink_to(own)
    assert bool(machine(tmp_path)) is (namespace == "pid:[1]")


def test_a_call_since_its_start_is_the_proof(tmp_path: Path) -> None:
    found = machine(tmp_path, "slurmctld", CONTROLLER, {"context": "prolog", "time": BOOT + 500})
    assert found == Controller(BOOT + 100, BOOT + 120, BOOT + 150)
    assert told(found)[0]


@pytest.mark.parametrize("records", [(), ({**CONTROLLER, "time": BOOT + 50.0},), ({**CONTROLLER, "time": "x"},), ([],)])
def test_a_call_before_its_start_is_none(tmp_path: Path, records: tuple[object, ...]) -> None:
    found = machine(tmp_path, "slurmctld", *records)
    assert found == Controller(BOOT + 100, BOOT + 120, None)
    called, sentence = told(found)
    assert not called
    assert sentence.endswith("scontrol reconfigure is not enough. Run systemctl restart slurmctld")


def test_a_file_that_was_copied_here_with_its_time_is_a_change(tmp_path: Path) -> None:
    found = machine(tmp_path)
    assert found
    conf = tmp_path / "slurm.conf"
    os.utime(conf, (1_000_000_000, 1_000_000_000))
    copied = running([str(conf)], str(tmp_path), str(tmp_path / "gate.jsonl"))
    assert copied
    assert copied.configured == conf.stat().st_ctime


def test_one_that_was_started_after_the_last_change_calls_it() -> None:
    assert told(Controller(BOOT, BOOT - 1, None))[0]
