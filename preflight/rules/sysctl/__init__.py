"""How hosts load sysctl files, and how the files have to change. Pure."""
