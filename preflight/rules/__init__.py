"""Rules of firewalls, sysctl files, HCCL and NCCL, which checks apply to facts. Pure."""
