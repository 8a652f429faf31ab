"""All benchmarks, one after the other: `make bench`."""

from benchmarks import checks, depth, fleet, pings, probe_vs_torchrun, startup

startup.main()
pings.main()
checks.main()
fleet.main()
depth.main()
probe_vs_torchrun.main()
