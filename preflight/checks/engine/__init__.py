"""The machinery of checks: registering them, running them over facts, waiving and describing them."""
