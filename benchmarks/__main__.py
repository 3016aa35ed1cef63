"""`python -m benchmarks`: every benchmark in its own process, then all budgets in one table."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Result

_NAMES = ("startup", "round_trip", "throughput", "queue_depth", "packaging")


def main() -> None:
    """Run all; the exit code says whether every budget is kept."""
    print(f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores")
    results: list[Result] = []
    crashed: list[str] = []
    for name in _NAMES:
        found = _run(name)
        results += found
        if not found:
            crashed.append(name)
    print("\n== summary")
    for result in results:
        print(result)
    for name in crashed:
        print(f"{name}: did not come to an end")
    sys.exit(bool(crashed) or any(result.failed for result in results))


def _run(name: str) -> list[Result]:
    before = time.monotonic()
    print(f"\n== {name}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kinetic-bench-") as directory:
        file = Path(directory, "results.json")
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}", file], check=False)
        results = json.loads(file.read_text()) if file.exists() else []
    print(f"    took {time.monotonic() - before:.0f} s", flush=True)
    return [Result(**fields) for fields in results]


if __name__ == "__main__":
    main()
