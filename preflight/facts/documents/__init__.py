"""Facts and captures as JSON documents, and differences between two of them."""
