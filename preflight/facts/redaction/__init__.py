"""Removal of secrets, names and addresses from what leaves the site."""
