"""Checks: from facts to findings, a folder an area."""
