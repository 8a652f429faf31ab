"""Commands on saved runs: lists, baselines, differences and support bundles."""
