"""A pod of a gang (`preflight probe --via pods`): it reports its node and address, and stores its verdict. Standard
library only, Python 3.6 syntax.

Stdin has a line of JSON, {} or the verdict. The verdict is written whole to the path $PREFLIGHT_VERDICT, which the
pod's init container checks once the relay has ended. Stdout gets {"node", "address"}, each "" where the pod's
environment lacks it.
"""

import json
import os
import sys


def main():
    verdict = json.loads(sys.stdin.readline())
    if verdict:
        path = os.environ["PREFLIGHT_VERDICT"]
        with open(path + ".partial", "w") as file:
            json.dump(verdict, file)
        os.rename(path + ".partial", path)
    names = {"node": "PREFLIGHT_NODE_NAME", "address": "PREFLIGHT_POD_IP"}
    json.dump({key: os.environ.get(name, "") for key, name in names.items()}, sys.stdout)


if __name__ == "__main__":
    main()
