"""Parsers of Linux tools and configuration files."""
