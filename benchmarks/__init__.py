"""Benchmarks of preflight, side by side with the tools that users have today."""
