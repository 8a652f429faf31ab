"""Checks of how hosts and devices reach each other: host NICs, names, cabling, pings."""
