"""``python -m preflight`` is the command ``preflight``."""

import sys

from preflight.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
