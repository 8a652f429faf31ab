"""Raw output of a tool to typed facts, a module a tool. The registry names every parser."""
