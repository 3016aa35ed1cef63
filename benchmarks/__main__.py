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

from benchmarks.measure import RESULTS, Result

_NAMES = ("startup", "round_trip", "throughput", "queue_depth", "packaging")


def main() -> None:
    """Run all; the exit code says whether every budget is kept."""
    print(f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores")
    results: list[Result] = []
    crashed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kinetic-bench-", ignore_cleanup_errors=True) as root:
        for name in _NAMES:
            found = _run(name, Path(root))
            results += found
            if not found:
                crashed.append(name)
    print("\n== summary")
    for result in results:
        print(result)
    for name in crashed:
        print(f"{name}: did not come to an end")
    sys.exit(bool(crashed) or any(result.failed for result in results))


def _run(name: str, root: Path) -> list[Result]:
    before = time.monotonic()
    print(f"\n== {name}", flush=True)
    directory = root / name
    directory.mkdir()
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", directory], check=False)
    file = directory / RESULTS
    results = json.loads(file.read_text()) if file.exists() else []
    print(f"    took {time.monotonic() - before:.0f} s", flush=True)
    return [Result(**fields) for fields in results]


if __name__ == "__main__":
    main()
