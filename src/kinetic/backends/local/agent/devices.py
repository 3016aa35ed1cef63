"""The NVIDIA GPUs of this machine, found once."""

from __future__ import annotations

import os
import subprocess


def find_gpus() -> tuple[int, ...]:
    """The indexes of the GPUs that jobs may be given, within any CUDA_VISIBLE_DEVICES."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = [int(line) for line in listed.split() if line.isdigit()]
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None or not all(part.strip().isdigit() for part in allowed.split(",") if part):
        return tuple(found)  # unset, or given as UUIDs, which indexes cannot be held against
    visible = {int(part) for part in allowed.split(",") if part}
    return tuple(index for index in found if index in visible)
