"""Checks of the ports that jobs bind."""
