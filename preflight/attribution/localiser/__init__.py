"""Localisation of faults from tests over groups of hosts or devices. Pure: pings and the probe supply the results.

Data flows from `types` through `evidence`, `rules` and `plan`. `localise` is the entry point, `merge` combines rails.
"""
