"""Parsers of tools' raw output into typed facts, one module per tool. The registry names every parser."""
