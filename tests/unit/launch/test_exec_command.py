"""What the command of `preflight exec` may say of nodes and ranks."""

import pytest

from preflight.launch.exec_command import Told, nodes_of
from preflight.model.errors import UsageError

TOLD = Told(nodes=None, processes=8, port=29500, table=True)


@pytest.mark.parametrize(
    ("command", "asked", "wanted"),
    [
        ("torchrun train.py", None, None),
        ("torchrun train.py", 3, 3),
        ("torchrun --nnodes 3 --nproc-per-node 8 --master_port=29500 train.py --nnodes 9 --standalone", None, 3),
        ("torchrun --nnodes=3 train.py", 3, 3),
        ("torchrun --nproc_per_node=gpu --rdzv_backend static --rdzv-id 7 train.py", None, None),
        ("python3 -m torch.distributed.run --nnodes 2 -m package.train", None, 2),
        ("/opt/venv/bin/torchrun --nnodes 2 train.py", None, 2),
        ("env OMP_NUM_THREADS=1 torchrun --nnodes 2 train.py", None, 2),
        ("python train.py --nnodes 4 --node-rank 1", 2, 2),
        ("bash -c torchrun", 2, 2),
        ("train.py", None, None),
    ],
)
def test_how_many_nodes_are_wanted(command: str, asked: int | None, wanted: int | None) -> None:
    assert nodes_of(command.split(), Told(asked, 8, 29500, table=True)) == wanted


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("torchrun --nnodes 4 train.py", "has --nnodes 4, but preflight exec has --nodes 3. Remove --nnodes"),
        ("torchrun --nnodes 1:4 train.py", "remove --nnodes 1:4 from the command. Set the number of nodes"),
        ("torchrun --node_rank 0 train.py", "remove --node-rank from the command: exec gives every node its own"),
        ("torchrun --master-addr node01 train.py", "remove --master-addr from the command: rank 0"),
        ("torchrun --rdzv-endpoint=node01:29400 train.py", "remove --rdzv-endpoint from the command"),
        ("torchrun --standalone train.py", "remove --standalone from the command: it would start a separate job"),
        (
            "torchrun --nproc_per_node 4 train.py",
            "has --nproc-per-node 4, but exec passes 8. Remove it, or use preflight",
        ),
        ("torchrun --master_port 1234 train.py", "or use preflight exec --master-port 1234"),
        ("torchrun --rdzv-backend c10d train.py", "--rdzv-backend c10d assigns ranks differently"),
        ("mpirun -np 4 train", "mpirun is started once for all nodes, but exec starts its command on each"),
        ("srun train", "srun is started once for all nodes"),
        ("deepspeed train.py", "deepspeed is started once for all nodes"),
    ],
)
def test_what_contradicts_is_refused_with_what_to_do(command: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        nodes_of(command.split(), Told(3, 8, 29500, table=True))
    assert said in str(refused.value)


def test_other_ways_to_meet_are_for_jobs_without_a_rank_table() -> None:
    assert nodes_of(["torchrun", "--rdzv-backend", "c10d", "train.py"], Told(3, 8, 29500)) == 3


def test_a_process_a_device_is_not_started_by_two() -> None:
    with pytest.raises(UsageError, match="--per-device: torchrun itself starts one process for each device"):
        nodes_of(["torchrun", "train.py"], Told(3, 8, 29500, per_device=True))
