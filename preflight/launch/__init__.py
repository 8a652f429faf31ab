"""Commands and environments that start a job on the hosts of an inventory, and checks of start scripts.

Pure: this package starts no process.
"""
