"""PBS (OpenPBS, PBS Professional): an execjob_begin hook, which the MoM of every host of a job runs before it begins.

  qmgr -c 'create hook preflight'
  qmgr -c 'set hook preflight event = execjob_begin'
  qmgr -c 'set hook preflight alarm = 30'
  qmgr -c 'import hook preflight application/x-python default pbs_preflight.py'

The hook rejects the job on a broken host, and on a host of unknown state if the policy is closed. The job goes back to
its queue, and PBS holds it after 20 runs. After an error of the gate itself the job begins. It was never run in a real
PBS.
"""

import subprocess

import pbs

GATE = "/usr/local/sbin/preflight-gate"
SECONDS = 20  # below the hook's alarm. The gate ends itself after 8
# True: a broken host is also taken out of service. A person has to return it. The number of such hosts is not limited.
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
        code, said = 0, f"the gate did not answer: {error}"
    if code in (1, 3) and said:  # a damaged gate also exits with 1, but prints nothing
        if code == 1 and OFFLINE:
            host = event.vnode_list[pbs.get_local_nodename()]
            host.state, host.comment = pbs.ND_OFFLINE, "preflight: " + said
        event.reject("preflight: " + said)
    else:
        pbs.logmsg(pbs.LOG_DEBUG, f"preflight: exit code {code}: {said}")
        event.accept()


decide(pbs.event())
