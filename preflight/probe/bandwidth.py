"""Algorithm and bus bandwidth as nccl-tests defines them (PERFORMANCE.md)."""


def algbw(bytes_: int, seconds: float) -> float:
    """GB/s (1e9 bytes) seen by the caller: tensor size over time."""
    return bytes_ / seconds / 1e9


def busbw(op: str, bytes_: int, seconds: float, ranks: int) -> float:
    """GB/s that the links carry, comparable over operations and rank counts; 0 for an all_reduce of one rank."""
    factor = 2 * (ranks - 1) / ranks if op == "all_reduce" else 1.0
    return algbw(bytes_, seconds) * factor
