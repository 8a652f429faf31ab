"""The collector's raw answer to typed sections, a module a group of sections."""
