"""Commands: each module has the help and options of one, and imports what carries it out when it runs."""
