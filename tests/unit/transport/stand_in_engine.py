"""An engine like srun or mpirun: runs a command once a node, all nodes on this machine. What comes on stdin goes to
all; what they say on stderr is passed on piece by piece, as it comes.

  stand_in_engine.py NODES FAULT COMMAND…

FAULT: none; deaf: stdin goes to nobody; lose: a frame of node 1 gets lost; noise: engines' own words, and frames of
another run, between the others.
"""

import json
import os
import selectors
import subprocess
import sys

nodes, fault, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
relays = [
    subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "RANK": str(number), "SLURMD_NODENAME": f"node{number}"},
    )
    for number in range(nodes)
]
selector = selectors.DefaultSelector()
selector.register(0, selectors.EVENT_READ)
for number, relay in enumerate(relays):
    assert relay.stderr
    selector.register(relay.stderr, selectors.EVENT_READ, number)
pieces, told = 0, set[int]()
while len(told) < nodes:
    for key, _ in selector.select(0.1):
        data = os.read(key.fd, 4096)
        if not data:
            selector.unregister(key.fileobj)
        if key.fd == 0:
            for relay in relays if fault != "deaf" else ():
                assert relay.stdin
                try:
                    relay.stdin.write(data)
                    relay.stdin.flush()
                    if not data:
                        relay.stdin.close()
                except OSError:
                    pass  # it has ended
            continue
        pieces += 1
        if fault == "lose" and key.data == 1 and b'"out"' in data:
            fault, data = "none", data[512:]
        if fault == "noise" and pieces % 5 == 0:
            forged = {"nonce": "0" * 32, "node": 0, "seq": 0, "program": "0.0", "exit": 9}
            os.write(2, json.dumps(forged).ljust(511).encode() + b"\nslurmstepd: error: nothing of note\n")
        os.write(2, data)
    for number, relay in enumerate(relays):
        silent = number not in [key.data for key in selector.get_map().values()]
        if number not in told and silent and relay.poll() is not None:
            told.add(number)
            os.write(2, b"engine: node%d: exit code %d\n" % (number, relay.returncode))
