"""Types of the facts, one module per section. The small sections are in preflight.facts.types."""
