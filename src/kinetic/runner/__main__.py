"""`python -m kinetic.runner`: run the attempt named by KINETIC_ASSIGNMENT."""

from __future__ import annotations

import os

from kinetic.runner.attempt import run
from kinetic.runner.leave import leave
from kinetic.spec import Assignment


def main() -> None:
    """Run, and end the process the way a Python program ends."""
    assignment = Assignment.from_json(os.environ.pop("KINETIC_ASSIGNMENT"))
    key = bytes.fromhex(os.environ.pop("KINETIC_SIGNING_KEY"))
    leave(run(assignment, key))


if __name__ == "__main__":
    main()
