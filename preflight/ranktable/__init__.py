"""Rank tables: text ⇄ types, their rules, and the table of live hosts. Pure."""
