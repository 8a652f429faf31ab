"""Commands that an agent refuses when its run uses the key of a gate (gate/ssh.py says so in the hello).

They would make that key good for more than a probe, and a quick probe needs none of them:

- Objects are pickled, and reading a pickle runs code of its sender's choice. The run chooses the senders.
- Ranks that meet in a file make, write and remove that file, at any path of the run's choice.

Commands that are not known to be harmless are refused, too.
"""

FORMS = ("tensor", "list", "async")
PLACES = ("store", "env", "tcp")


def refusal(command):
    """Return the reason why a group is not started, in one sentence; "" if it may start.

    A worker's own settings override those of the command, so each worker is checked with the settings that it would
    get.
    """
    for spec in [command] + [dict(command, **worker) for worker in command["workers"]]:
        if spec["init"] not in PLACES or spec.get("file"):
            return "the gate's key only allows init methods with a store, not %.40r" % (spec["init"],)
        forms = [test["form"] for test in spec["tests"] if test["form"] not in FORMS]
        if forms:
            return "the gate's key does not allow collectives of the form %.40r" % (forms[0],)
    return ""
