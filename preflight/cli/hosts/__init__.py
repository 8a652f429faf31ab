"""Commands that read hosts, or lists of them, and change none."""
