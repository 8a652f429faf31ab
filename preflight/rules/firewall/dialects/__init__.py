"""The languages of the firewalls, a module each: `parse` reads a rule as the tool shows it, `ours` writes our own."""
