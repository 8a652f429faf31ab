"""Checks of Ascend NPUs: chips, cards, device NICs and HCCS."""
