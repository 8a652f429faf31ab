"""How firewalls judge connections, and which rules let the cluster in. Pure."""
