"""Checks of the host firewall."""
