"""Removal of secrets, names and addresses from documents that leave the site."""
