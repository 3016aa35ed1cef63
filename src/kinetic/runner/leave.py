"""End a job's process as a Python program ends, without unwinding what it was forked from."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import traceback
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """Join the user's threads, run their exit handlers, flush, and go."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter itself calls
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  # an exit handler's failure is shown, and changes nothing
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
