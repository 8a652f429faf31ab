"""Tests of devices, with what explains their results."""
