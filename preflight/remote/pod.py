"""A pod of a gang (`preflight probe --via pods`) is asked where it is, and told its verdict. Standard library only,
Python 3.6 syntax.

stdin: a line of JSON, {} or the verdict, which is put whole where $PREFLIGHT_VERDICT says: there its init container
looks once the relay has ended. stdout: {"node", "address"}, "" where the pod has not been told.
"""

import json
import os
import sys


def main():
    said = json.loads(sys.stdin.readline())
    if said:
        path = os.environ["PREFLIGHT_VERDICT"]
        with open(path + ".partial", "w") as file:
            json.dump(said, file)
        os.rename(path + ".partial", path)
    names = {"node": "PREFLIGHT_NODE_NAME", "address": "PREFLIGHT_POD_IP"}
    json.dump({key: os.environ.get(name, "") for key, name in names.items()}, sys.stdout)


if __name__ == "__main__":
    main()
