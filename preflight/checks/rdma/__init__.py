"""Checks of RDMA NICs: ports, GIDs and the path to the GPUs."""
