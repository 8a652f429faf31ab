"""Checks of a host by itself: contact, clock, limits, processors, containers."""
