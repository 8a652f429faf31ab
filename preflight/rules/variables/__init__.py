"""The meaning of variables to HCCL and NCCL. Pure."""
