"""Wording and comparison that several checks share: devices of one vendor, majorities, culprits."""
