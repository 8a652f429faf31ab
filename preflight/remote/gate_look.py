"""Where the gate's files would be put on this host, and which Python is to run them. Runs on the host; imported by
nobody. Standard library only, Python 3.6 syntax. Nothing is written.

The rest of stdin is the request, {"marker", "paths"}; the answer is `\\n<marker> <length>\\n<json>\\n`:

    python   absolute path of the interpreter, "" if none starts that is 3.6 or newer
    kinds    {path: missing | file | link | folder | other}
"""

import json
import os
import stat
import subprocess
import sys

# The system's own, which stay when somebody's environment goes; the second is all that a minimal RHEL 8 has.
PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python")
NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 6))"
SECONDS = 10


def starts(python):
    try:
        return subprocess.call([python, "-IS", "-c", NEW_ENOUGH], timeout=SECONDS) == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def kind(path):
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    for word, test in (("file", stat.S_ISREG), ("link", stat.S_ISLNK), ("folder", stat.S_ISDIR)):
        if test(mode):
            return word
    return "other"


def main():
    request = json.loads(sys.stdin.buffer.read().decode())
    python = next((path for path in (*PYTHONS, sys.executable) if path and starts(path)), "")
    answer = json.dumps({"python": python, "kinds": {path: kind(path) for path in request["paths"]}})
    sys.stdout.write("\n%s %d\n%s\n" % (request["marker"], len(answer), answer))


main()
