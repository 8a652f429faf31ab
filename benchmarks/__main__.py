"""All benchmarks in sequence: `make bench`."""

from benchmarks import (
    busbw,
    checks,
    depth,
    diagnose,
    fleet,
    gate,
    history_documents,
    lab_matrix,
    lists,
    localiser,
    pings,
    probe_vs_torchrun,
    reports,
    rounds,
    startup,
)

startup.main()
gate.main()
pings.main()
lists.main()
checks.main()
reports.main()
history_documents.main()
fleet.main()
depth.main()
diagnose.main()
rounds.main()
localiser.main()
probe_vs_torchrun.main()
busbw.main()
lab_matrix.main()
