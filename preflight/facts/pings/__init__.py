"""The second round over the hosts: pings between devices."""
