"""All benchmarks, one after the other: `make bench`."""

from benchmarks import fleet, probe_vs_torchrun, startup

startup.main()
fleet.main()
probe_vs_torchrun.main()
