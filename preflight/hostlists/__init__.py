"""Host lists of other tools, read into an inventory and written from one: a module for each format. Pure."""
