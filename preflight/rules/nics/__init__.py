"""How the inventory, HCCL, NCCL, gloo and MPI choose NICs. Pure."""
