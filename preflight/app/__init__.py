"""Use cases of the commands: check, probe, exec, changes of hosts, and saved runs."""
