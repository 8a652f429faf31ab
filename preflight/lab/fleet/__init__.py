"""The fleet: thousands of simulated hosts on this machine, each an ssh server that answers the collector."""
