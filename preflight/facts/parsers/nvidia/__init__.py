"""Parsers of the NVIDIA tools and logs."""
