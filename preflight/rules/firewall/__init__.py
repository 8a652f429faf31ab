"""Judgement of connections by firewalls, and the rules that let the cluster in. Pure."""
