"""Faults of start scripts, found by reading them."""
