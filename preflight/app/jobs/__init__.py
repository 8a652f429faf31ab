"""Jobs on healthy nodes."""
