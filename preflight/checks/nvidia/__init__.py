"""Checks of NVIDIA GPUs: driver, health, NVLink and NVSwitch."""
