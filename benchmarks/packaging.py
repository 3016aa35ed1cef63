"""Submitting again from a project of a thousand files in which nothing has changed.

`python -m benchmarks.packaging`
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import kinetic
import kinetic.capture.source
import kinetic.submit
from benchmarks.measure import Result, Samples, against, run, scratch, temporary_home, timed

_PACKAGES, _MODULES = 20, 50
_SAMPLES = 21
_PACKAGING = (
    (kinetic.capture.source, "capture"),
    (kinetic.submit, "pickle_function"),
    (kinetic.submit, "pickle_arguments"),
)
_JOB = "import kinetic\n\n@kinetic.run('cpu')\ndef increment(number):\n    return number + 1\n"


def measured() -> Iterator[Result]:
    """What packaging takes of a submission, against a plain walk over the same files."""
    with temporary_home() as home, _project() as root:
        job = importlib.import_module("bench_project_job").increment
        job(0)  # the first submission packs and uploads
        before = _blobs(home.root)
        walks, packagings, submissions = _rounds(job, root)
        uploaded = len(_blobs(home.root) - before)
    yield Result(
        "packaging an unchanged 1,000-file project",
        packagings.median * 1000,
        50,
        "ms",
        detail=f"{packagings.median / walks.median:.1f} x os.walk and lstat:"
        f" {against(packagings, walks)}; the whole of run_async: {submissions}",
    )
    yield Result(
        "blobs uploaded by these submissions",
        uploaded,
        0,
        "blobs",
        detail=f"{len(before)} in the store before and {len(before) + uploaded} after"
        f" {_SAMPLES} submissions",
    )


def _rounds(job: Any, root: Path) -> tuple[Samples, Samples, Samples]:
    walks, packagings, submissions = [], [], []
    for number in range(_SAMPLES):
        walks.append(timed(lambda: _walk(root)))
        with _packaging_time() as spent:
            before = time.perf_counter()
            handle = job.run_async(number)
            submissions.append(time.perf_counter() - before)
        packagings.append(sum(spent))
        handle.result()  # so that no job runs while the next one is measured
    return Samples(tuple(walks)), Samples(tuple(packagings)), Samples(tuple(submissions))


@contextmanager
def _project() -> Iterator[Path]:
    """A project of a thousand modules, to be imported from and to stand in."""
    stood = Path.cwd()
    root = scratch()
    for package in range(_PACKAGES):
        directory = root / f"package_{package:02d}"
        directory.mkdir()
        for module in range(_MODULES):
            text = f"VALUE = {module}\n" * 200
            (directory / f"module_{module:02d}.py").write_text(text)
    (root / "pyproject.toml").write_text("[project]\nname = 'bench-project'\n")
    (root / "bench_project_job.py").write_text(_JOB)
    sys.path.insert(0, str(root))
    os.chdir(root)
    try:
        yield root
    finally:
        os.chdir(stood)
        sys.path.remove(str(root))


@contextmanager
def _packaging_time() -> Iterator[list[float]]:
    """Collects the seconds that a submission spends on capturing and pickling."""
    spent: list[float] = []
    patches = [
        mock.patch.object(module, name, _clocked(getattr(module, name), spent))
        for module, name in _PACKAGING
    ]
    for patch in patches:
        patch.start()
    try:
        yield spent
    finally:
        for patch in patches:
            patch.stop()


def _clocked(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        before = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent.append(time.perf_counter() - before)

    return call


def _walk(root: Path) -> int:
    """The least that anyone must do who wants to know whether a file has changed."""
    count = 0
    for directory, _, names in os.walk(root):
        for name in names:
            os.lstat(os.path.join(directory, name))  # noqa: PTH118  # the cheap way
            count += 1
    return count


def _blobs(home: Path) -> set[str]:
    return {path.name for path in (home / "store" / "blobs").rglob("*") if path.is_file()}


if __name__ == "__main__":
    run(measured)
