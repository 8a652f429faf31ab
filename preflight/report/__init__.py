"""Renderers of the Report. No renderer computes a verdict."""
