"""How HCCL and NCCL read their variables. Pure."""
