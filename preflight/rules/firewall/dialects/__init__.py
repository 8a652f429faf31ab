"""The languages of the firewalls, a module each: `parse` reads a tool's rule, `ours` writes one of preflight's."""
