"""Algorithm and bus bandwidth as nccl-tests defines them (PERFORMANCE.md). Bytes are its S, those of TestResult."""


def algbw(bytes_: int, seconds: float) -> float:
    """Return the bandwidth that the caller sees, in GB/s (1e9 bytes): size over time."""
    return bytes_ / seconds / 1e9


def busbw(op: str, bytes_: int, seconds: float, ranks: int) -> float:
    """Return the bandwidth that the links carry, in GB/s, comparable over operations and rank counts.

    It is 0 for a single rank, which sends nothing.
    """
    return algbw(bytes_, seconds) * _factor(op, ranks)


def _factor(op: str, ranks: int) -> float:
    match op:
        case "all_reduce":
            return 2 * (ranks - 1) / ranks
        case "all_gather" | "reduce_scatter" | "all_to_all" | "gather" | "scatter":
            return (ranks - 1) / ranks
        case _:  # broadcast, reduce, send_recv
            return 1.0
