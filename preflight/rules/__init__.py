"""How firewalls, sysctl files, HCCL and NCCL work, as rules that checks apply to facts. Pure."""
