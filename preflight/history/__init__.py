"""What was looked at from this machine: runs of check and probe, what they found and measured, saved baselines.

Runs that change hosts are not in it: their journals are the truth about them (`provision/journal.py`), written while
they run, so that one that is killed is known too. `preflight history` lists both.
"""
