"""The whole product in a minute, on this machine, with nothing configured.

python examples/quickstart.py
"""

from __future__ import annotations

import subprocess
import sys
import time

import kinetic


@kinetic.run(accelerator="cpu")
def train(steps: int, lr: float) -> dict[str, float]:
    """Fit y = 3x by gradient descent, and say how it goes."""
    weight, loss = 0.0, 9.0
    for step in range(steps):
        weight -= lr * 2 * (weight - 3.0)
        loss = (weight - 3.0) ** 2
        print(f"step {step}: loss {loss:.4f}")
        time.sleep(0.05)
    return {"weight": round(weight, 3), "loss": round(loss, 6)}


@kinetic.run(accelerator="cpu")
def diverge(lr: float) -> float:
    """Fail, as jobs sometimes do."""
    if lr > 1:
        raise ValueError(f"lr={lr} diverges; try something below 1")
    return lr


COLLECT = """
import sys, kinetic
job = kinetic.attach(sys.argv[1])
print("  another process found", job.func_name, "by its id and got", job.result())
"""


def main() -> None:
    """A blocking call, a detached job, a failure."""
    print("1. A call that blocks: what the job prints appears here, then its value.")
    print("  returned", train(steps=5, lr=0.3))

    print("\n2. A detached job: only its id is needed to collect it, from any process.")
    job = train.run_async(steps=3, lr=0.4)
    print("  submitted", job.job_id)
    subprocess.run([sys.executable, "-c", COLLECT, job.job_id], check=True)

    print("\n3. A failure comes back as itself, with the job's own traceback.")
    try:
        diverge(lr=2.0)
    except ValueError as error:
        print(f"  caught {type(error).__name__}: {error}")
        for note in error.__notes__:
            print("   ", note.replace("\n", "\n    "))

    print("\nLook around with `kinetic jobs list`; `kinetic --help` shows the rest.")


if __name__ == "__main__":
    main()
