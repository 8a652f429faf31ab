"""PBS (OpenPBS, PBS Professional): an execjob_begin hook, which the MoM of every host of a job runs before it begins.

    qmgr -c 'create hook preflight'
    qmgr -c 'set hook preflight event = execjob_begin'
    qmgr -c 'set hook preflight alarm = 30'
    qmgr -c 'import hook preflight application/x-python default pbs_preflight.py'

A broken host, or one of which nobody knows where the policy says closed: the job is rejected and goes back to its queue
(after 20 runs PBS holds it). Whatever goes wrong with the gate itself lets the job begin. Never run in a real PBS.
"""

import subprocess

import pbs

GATE = "/usr/local/sbin/preflight-gate"
SECONDS = 20  # below the hook's alarm; the gate ends by itself after 8
# True: a broken host is taken out of service, too, for whose return somebody has to care. Nothing counts here how many
# are out already.
OFFLINE = False


def ask():
    """(exit code, what it said)"""
    done = subprocess.run(
        [GATE, "--local", "--context", "prolog"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()[:400]


def decide(event):
    try:
        code, said = ask()
    except Exception as error:
        code, said = 0, f"the gate has not answered: {error}"
    if code in (1, 3) and said:  # a gate that is damaged ends with 1, too, and says nothing on stdout
        if code == 1 and OFFLINE:
            host = event.vnode_list[pbs.get_local_nodename()]
            host.state, host.comment = pbs.ND_OFFLINE, "preflight: " + said
        event.reject("preflight: " + said)
    else:
        pbs.logmsg(pbs.LOG_DEBUG, f"preflight: exit code {code}: {said}")
        event.accept()


decide(pbs.event())
