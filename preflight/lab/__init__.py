"""The lab: a cluster in a box, for demonstrations, tests and rehearsals. Only `preflight.cli` imports it."""
