"""One Report, rendered; no renderer computes a verdict of its own."""
