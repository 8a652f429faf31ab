"""Checks of what the probe's tests observed."""
