"""Rank tables: reading, writing, their rules, and the table of live hosts. Pure."""
