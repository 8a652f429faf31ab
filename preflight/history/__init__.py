"""The history of this machine: runs of check and probe with their findings and figures, and saved baselines.

Runs that change hosts are not in it. Their journals (`provision/journal.py`) are written while they run, so that a run
that is killed is known too. `preflight history` lists both.
"""
