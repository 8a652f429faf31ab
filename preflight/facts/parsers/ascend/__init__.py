"""Parsers of the Ascend tools and files."""
