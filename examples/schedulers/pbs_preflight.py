"""PBS (OpenPBS, PBS Professional): an execjob_begin hook, which the MoM of every host of a job runs before it begins.

  qmgr -c 'create hook preflight'
  qmgr -c 'set hook preflight event = execjob_begin'
  qmgr -c 'set hook preflight alarm = 30'
  qmgr -c 'import hook preflight application/x-python default pbs_preflight.py'

On a broken host the job is rejected and goes back to its queue (after 20 runs PBS holds it). So it does on a host of
unknown state if the policy says closed. If the gate itself fails, the job begins. Never run in a real PBS.
"""

import subprocess

import pbs

GATE = "/usr/local/sbin/preflight-gate"
SECONDS = 20  # below the hook's alarm; the gate ends by itself after 8
# True: a broken host is taken out of service, too, until an operator returns it. Nothing here limits how many are out.
OFFLINE = False


def ask():
    """Return the gate's exit code and its message."""
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
    if code in (1, 3) and said:  # a damaged gate ends with 1, too, but prints nothing on stdout
        if code == 1 and OFFLINE:
            host = event.vnode_list[pbs.get_local_nodename()]
            host.state, host.comment = pbs.ND_OFFLINE, "preflight: " + said
        event.reject("preflight: " + said)
    else:
        pbs.logmsg(pbs.LOG_DEBUG, f"preflight: exit code {code}: {said}")
        event.accept()


decide(pbs.event())
