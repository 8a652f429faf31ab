"""Host lists of other tools ⇄ what an inventory can take from them: a module a format. Pure."""
