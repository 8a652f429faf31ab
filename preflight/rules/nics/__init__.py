"""The choice of NICs by the inventory, HCCL, NCCL, gloo and MPI. Pure."""
