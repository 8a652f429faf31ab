"""Checks of what jobs start with: variables, files, programs and profiles."""
