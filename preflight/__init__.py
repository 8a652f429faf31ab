"""Prepare and prove clusters of accelerator servers before distributed training starts."""

__version__ = "0.1.0"
