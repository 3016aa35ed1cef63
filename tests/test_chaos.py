"""Killing things at random: nothing accepted is lost, nothing runs twice."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path

import kinetic
from kinetic.job_status import JobStatus
from tests import agents

JOBS = 200

CLIENT = """
import json, os, sys
import kinetic

@kinetic.run(accelerator="cpu")
def square(n, runs):
    fd = os.open(runs, os.O_WRONLY | os.O_APPEND)
    os.write(fd, (os.environ["KINETIC_JOB_ID"] + "\\n").encode())
    return n * n

ledger, runs, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(ledger, "a+") as book:
    book.seek(0)
    for n in range(len(book.readlines()), last):
        job = square.run_async(n, runs)
        book.write(json.dumps([n, job.job_id]) + "\\n")
        book.flush()
        print(n, flush=True)
"""


def test_killing_agents_and_a_client_loses_nothing_and_runs_nothing_twice(
    own_home: Path, project: Path
) -> None:
    """200 jobs, five agents and a client killed at random: 200 right results, each run once."""
    dice = random.Random()
    seed = dice.randrange(1 << 32)
    dice.seed(seed)
    moments = dice.sample(range(5, JOBS - 5), 6)
    kills = dict.fromkeys(moments[:5], "agent") | {moments[5]: "client"}
    ledger, runs = own_home / "ledger", own_home / "runs"
    runs.touch()
    killed = _submit_under_fire(project, own_home, ledger, runs, kills)

    submitted = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [n for n, _ in submitted] == list(range(JOBS)), f"seed {seed}"
    results = [kinetic.attach(job_id).result(cleanup=False) for _, job_id in submitted]
    assert results == [n * n for n in range(JOBS)], f"seed {seed}"
    # The killed client may have had one more job accepted than it could write down.
    everything = kinetic.list_jobs()
    assert JOBS <= len(everything) <= JOBS + killed["client"], f"seed {seed}"
    for job in everything:
        job.result(cleanup=False)
        assert job.status() is JobStatus.SUCCEEDED
    ran = Counter(runs.read_text().split())
    assert ran == Counter(job.job_id for job in everything), f"seed {seed}"
    assert killed == {"agent": 5, "client": 1}


def _submit_under_fire(
    project: Path, home: Path, ledger: Path, runs: Path, kills: dict[int, str]
) -> Counter[str]:
    killed: Counter[str] = Counter()
    while not ledger.exists() or len(ledger.read_text().splitlines()) < JOBS:
        client = _client(project, home, ledger, runs)
        assert client.stdout
        with client.stdout as said:
            for line in said:
                match kills.pop(int(line), None):
                    case "agent":
                        killed["agent"] += agents.kill(home) is not None
                    case "client":
                        client.kill()
                        killed["client"] += 1
        code = client.wait(agents.PATIENCE)
        assert code in (0, -9), client.stderr.read() if client.stderr else ""
        if client.stderr:
            client.stderr.close()
    return killed


def _client(project: Path, home: Path, ledger: Path, runs: Path) -> subprocess.Popen[str]:
    text = CLIENT.replace(
        "sys.argv[1], sys.argv[2], int(sys.argv[3])", repr((str(ledger), str(runs), JOBS))
    )
    return agents.script(project, text, home)
