"""Typed sections from the collector's raw answer, one module per group of sections."""
