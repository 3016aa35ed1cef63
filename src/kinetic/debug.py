"""Debugging a job from an editor."""

from __future__ import annotations

import subprocess

_PATIENCE = 5.0  # seconds


def cleanup_port_forward(proc: subprocess.Popen[bytes] | None) -> None:
    """End the connection that `JobHandle.debug_attach` returned; fine to call twice."""
    if proc is None or proc.poll() is not None:
        return
    proc.terminate()
    try:
        proc.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.wait()
