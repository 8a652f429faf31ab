"""The loading of sysctl files, and the edits that they need. Pure."""
