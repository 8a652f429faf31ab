"""Timeouts of steps in a round, shorter ones for a limited budget, and the expected duration of rounds. Pure."""
