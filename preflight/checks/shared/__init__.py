"""What several checks share to word and compare: devices of one vendor, majorities, culprits."""
