"""Checks of versions: equal on all hosts, and compatible with each other."""
