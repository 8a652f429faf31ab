"""Runs and files of the past: named, read back and compared."""
