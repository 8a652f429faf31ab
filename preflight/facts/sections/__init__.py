"""Types of the facts, a module a section. The small sections are in preflight.facts.types."""
