"""The types that everything speaks. Frozen, pure, no I/O, no third party."""
