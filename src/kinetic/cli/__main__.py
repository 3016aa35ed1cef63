"""`python -m kinetic.cli` is the `kinetic` command."""

import sys

from kinetic.cli import main

if __name__ == "__main__":
    sys.exit(main())
