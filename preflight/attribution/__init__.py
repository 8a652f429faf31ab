"""Attribution of failures: culprits, evidence and causes, from pings, tests and facts. Pure."""
