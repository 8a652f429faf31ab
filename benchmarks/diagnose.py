"""Time and memory of `diagnose` for 1 GB of logs of 64 ranks, against `wc -l`. One of the ranks failed first."""

import resource
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import PREFLIGHT, Command, machine, medians

RANKS, LOG_BYTES = 64, 16 << 20
FIRST = 13  # the rank that fails; all others wait for it


def main(runs: int = 3) -> None:
    with tempfile.TemporaryDirectory(prefix="preflight-bench-") as directory:
        logs = [_write(Path(directory), rank) for rank in range(RANKS)]
        commands = {
            "wc -l": Command(("wc", "-l", *logs)),
            "preflight diagnose": Command((*PREFLIGHT, "diagnose", *logs), good=(1,)),
        }
        result = medians(commands, runs)
    own, bare = result["preflight diagnose"], result["wc -l"]
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"diagnose of {RANKS} logs of {LOG_BYTES >> 20} MiB, medians of {runs}: seconds, of them CPU; times wc -l")
    print(f"  {own.wall:.1f}, {own.cpu:.1f}; {own.wall / bare.wall:.0f}; at most {memory:.0f} MiB of memory")
    print(f"  {machine()}")


def _write(directory: Path, rank: int) -> str:
    """Write the log of a rank: NCCL's messages, the output of the training, and the error at the end."""
    host, device, written, number = rank // 8, rank % 8, 0, 0
    path = directory / f"rank{rank:02}.log"
    with path.open("w") as log:
        while written < LOG_BYTES:
            number += 1
            line = (
                f"node{host:02}:{4000 + rank}:{4100 + rank} [{device}] NCCL INFO Channel {number % 32:02}/0 : "
                f"{rank}[{device}] -> {(rank + 1) % RANKS}[{(device + 1) % 8}] [send] via NET/IB/0/GDRDMA\n"
                if number % 3
                else f"[2026-11-20 10:{number // 6000 % 60:02}:{number // 100 % 60:02}] [INFO] [Rank {rank}] step "
                f"{number} loss {number % 977 / 100:.4f} grad norm 1.03 throughput 1234.5 tokens/s\n"
            )
            written += log.write(line)
        if rank == FIRST:
            log.write(
                f"node{host:02}:{4000 + rank}:{4100 + rank} [{device}] misc/ibvwrap.cc:278 NCCL WARN Call to "
                "ibv_reg_mr_iova2 failed with error Cannot allocate memory\n"
            )
        log.write(
            f"[rank{rank}]:[E1120 10:59:{50 - 20 * (rank == FIRST)}.123456 ProcessGroupNCCL.cpp:616] [Rank {rank}] "
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE, NumelIn=1, "
            "NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
        )
    return str(path)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
