"""Where settings come from, and what is said on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kinetic
from kinetic import settings
from kinetic.errors import OptionError
from tests import agents
from tests.conformance.jobs import cpu


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A profiles file of this test's own, and no settings from outside."""
    for name in ("PROJECT", "ZONE", "CLUSTER", "NAMESPACE", "BACKEND", "PROFILE"):
        monkeypatch.delenv(f"KINETIC_{name}", raising=False)
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    monkeypatch.setenv("KINETIC_PROFILES_FILE", str(tmp_path / "profiles.json"))
    return tmp_path / "profiles.json"


def write(path: Path, current: str | None, **profiles: Any) -> None:
    """Write a profiles file."""
    path.write_text(json.dumps({"current": current, "profiles": profiles}))


def test_defaults(profiles: Path) -> None:
    """Without anything configured: the reference's defaults, and no project."""
    resolved = settings.resolve()
    assert (resolved.zone, resolved.cluster, resolved.namespace) == (
        "us-central1-a",
        "kinetic-cluster",
        "default",
    )
    assert resolved.project is resolved.backend is resolved.profile is None


def test_argument_beats_variable_beats_profile_beats_default(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one order, for every setting."""
    write(profiles, "lab", lab={"zone": "from-profile", "backend": "local", "project": "p"})
    assert settings.resolve().zone == "from-profile"
    assert settings.resolve().backend == "local"
    monkeypatch.setenv("KINETIC_ZONE", "from-variable")
    assert settings.resolve().zone == "from-variable"
    assert settings.resolve(zone="from-argument").zone == "from-argument"
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "last-resort")
    assert settings.resolve().project == "p"
    write(profiles, None)
    assert settings.resolve().project == "last-resort"


def test_the_profile_is_chosen_by_variable_or_file(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale `current` counts as none; an unknown name that was asked for is an error."""
    write(profiles, "gone", a={"zone": "za"}, b={"zone": "zb"})
    assert settings.resolve().profile is None
    monkeypatch.setenv("KINETIC_PROFILE", "b")
    assert settings.resolve().zone == "zb"
    monkeypatch.setenv("KINETIC_PROFILE", "c")
    with pytest.raises(OptionError, match="no profile `c`") as caught:
        settings.resolve()
    assert "`a`, `b`" in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[]", '{"profiles": 3}', "\xff"])
def test_a_corrupt_profiles_file_is_reported_and_left_alone(profiles: Path, content: str) -> None:
    """Never a silent default, never overwritten."""
    profiles.write_bytes(content.encode("latin-1"))
    with pytest.raises(OptionError, match="cannot be read"):
        settings.resolve()
    assert profiles.read_bytes() == content.encode("latin-1")


def test_a_bad_backend_in_the_environment_is_an_error(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typo in KINETIC_BACKEND is told, like one in the code."""
    monkeypatch.setenv("KINETIC_BACKEND", "locla")
    with pytest.raises(OptionError, match="did you mean `local`"):
        settings.resolve()


def test_every_entry_point_resolves_alike(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decorator, attach and list_jobs follow the same settings."""
    monkeypatch.setenv("KINETIC_BACKEND", "kubernetes")
    asks: list[Callable[[], object]] = [
        cpu(lambda: 1),
        lambda: kinetic.attach("x"),
        kinetic.list_jobs,
    ]
    for ask in asks:
        with pytest.raises(RuntimeError, match="no engine for the backend `kubernetes`"):
            ask()
    monkeypatch.delenv("KINETIC_BACKEND")
    asks = [
        kinetic.run("cpu", project="p")(lambda: 1),
        lambda: kinetic.attach("x", project="p", cluster="c"),
        lambda: kinetic.list_jobs(project="p", zone="z", cluster="c", namespace="n"),
    ]
    for ask in asks:
        with pytest.raises(RuntimeError, match="no engine for the backend `gke`"):
            ask()


def test_the_default_is_this_machine_and_says_so_once(home: Path, project: Path) -> None:
    """One line names the command that connects a cluster, another the missing accelerator."""
    text = "import kinetic\n@kinetic.run()\ndef f():\n    return 1\nprint(f(), f())\n"
    process = agents.script(
        project, text, home, KINETIC_LOG_LEVEL="INFO", KINETIC_BACKEND="", PATH="/usr/bin:/bin"
    )
    out, err = process.communicate(timeout=agents.PATIENCE)
    assert out == "1 1\n", err
    assert err.splitlines() == [
        "kinetic: no cluster is configured, so jobs run on this machine; "
        "`kinetic init` connects one",
        "kinetic: `tpu-v5e-1` is not on this machine: jobs run on the CPU instead",
    ]


def test_the_output_directory_can_be_chosen(home: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """`output_dir=` first, then the client's own variable, then the store."""

    def where() -> str:
        import os

        return os.environ["KINETIC_OUTPUT_DIR"]

    assert kinetic.run("cpu", output_dir=str(tmp_path / "a"))(where)() == str(tmp_path / "a")
    monkeypatch.setenv("KINETIC_OUTPUT_DIR", str(tmp_path / "b"))
    assert cpu(where)() == str(tmp_path / "b")
    assert (tmp_path / "b").is_dir()
    monkeypatch.delenv("KINETIC_OUTPUT_DIR")
    assert cpu(where)().startswith(str(home / "store" / "outputs"))


def test_ctrl_c_says_how_to_find_the_job_again(home: Path, project: Path) -> None:
    """A blocking call that is interrupted leaves the job running and says so."""
    import os
    import signal

    from tests.conformance.gates import Gate

    gate = Gate(project)
    text = (
        "import kinetic\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def held(arrived, passed):\n"
        "    open(arrived, 'w').close()\n"
        "    open(passed).close()\n"
        "    return 'finished'\n"
        f"held({gate.arrived!r}, {gate.passed!r})\n"
    )
    process = agents.script(project, text, home, KINETIC_LOG_LEVEL="INFO")
    gate.await_arrival()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=agents.PATIENCE)
    assert "the job goes on" in err
    job_id = err.partition("kinetic jobs logs -f ")[2].partition("`")[0]
    gate.open()
    assert kinetic.attach(job_id).result() == "finished"
