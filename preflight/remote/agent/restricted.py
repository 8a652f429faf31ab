"""What an agent refuses whose run has come with the key of a gate (gate/ssh.py says so in the hello): whatever would
make of that key more than a probe. A quick probe needs none of it.

- Objects are pickled, and reading a pickle runs what its sender likes; who the senders are, the run decides.
- Ranks that meet in a file make, write and remove one, wherever the run says.

What is not known to be harmless is refused, too.
"""

FORMS = ("tensor", "list", "async")
PLACES = ("store", "env", "tcp")


def refusal(command):
    """Why a group is not started, in a sentence; "" if it may. What is said of a worker comes before what is said of
    all, so each is looked at as it would be told."""
    for spec in [command] + [dict(command, **worker) for worker in command["workers"]]:
        if spec["init"] not in PLACES or spec.get("file"):
            return "the gate's key is for ranks that meet at a store, not init %.40r" % (spec["init"],)
        forms = [test["form"] for test in spec["tests"] if test["form"] not in FORMS]
        if forms:
            return "the gate's key is for numbers, not for collectives of the form %.40r" % (forms[0],)
    return ""
