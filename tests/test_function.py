"""The decorator: what it accepts, what it refuses, and what it leaves as it was."""

from __future__ import annotations

import functools
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import kinetic
from kinetic import errors
from tests.conformance.jobs import cpu


def test_a_decorated_function_looks_like_itself() -> None:
    """Name, docstring, signature and the function itself are kept."""

    @cpu
    def train(lr: float, *, steps: int = 3) -> float:
        """Train a model."""
        return lr * steps

    assert train.__name__ == "train"
    assert train.__doc__ == "Train a model."
    assert str(inspect.signature(train)) == "(lr: 'float', *, steps: 'int' = 3) -> 'float'"
    assert train.__wrapped__(2.0) == 6.0
    assert repr(train) == "<kinetic.run train on cpu>"


def test_the_types_are_known_to_a_type_checker(tmp_path: Path) -> None:
    """Arguments are checked and results are known, for functions, methods and handles."""
    (tmp_path / "typed.py").write_text(
        "import kinetic\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def f(x: int, *, y: str = '') -> list[float]:\n    return [1.0]\n"
        "class M:\n"
        "    @kinetic.run()\n"
        "    def g(self, z: bytes) -> bool:\n        return True\n"
        "reveal_type(f(1))\n"
        "reveal_type(f.run_async(1).result())\n"
        "reveal_type(M().g(b''))\n"
        "f('wrong')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "typed.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.count('Revealed type is "list[float]"') == 2, ran.stdout
    assert 'Revealed type is "bool"' in ran.stdout
    assert 'incompatible type "str"; expected "int"' in ran.stdout
    assert "Found 1 error" in ran.stdout, ran.stdout


def _generator() -> Any:
    yield 1


async def _coroutine() -> None: ...


class _Class: ...


@pytest.mark.parametrize(
    ("thing", "hint"),
    [
        (classmethod(lambda _: None), "put `@classmethod` above"),
        (staticmethod(lambda: None), "put `@staticmethod` above"),
        (functools.lru_cache(lambda: None), "inner function"),
        (functools.cache(lambda: None), "inner function"),
        (42, "decorate a function"),
        ("train", "decorate a function"),
        (_Class, "decorate a function"),
        (_generator, "return a list"),
        (_coroutine, "asyncio.run"),
        (cpu(lambda: None), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_a_job_is_refused_with_a_hint(thing: Any, hint: str | None) -> None:
    """A TypeError at decoration says what to do instead."""
    with pytest.raises(TypeError) as caught:
        cpu(thing)
    if hint:
        assert hint in str(caught.value)


def test_a_decorated_function_pickles_by_name_where_it_can_be_imported() -> None:
    """It comes back as the very same object; one made on the spot travels by value."""
    assert pickle.loads(pickle.dumps(importable)) is importable
    local = cpu(lambda x: x + 1)
    assert pickle.loads(cloudpickle.dumps(local)).__wrapped__(1) == 2


@cpu
def importable() -> None:
    """Can be found by name."""


def test_forgotten_parentheses_are_noticed() -> None:
    """`@kinetic.run` without parentheses says how to write it."""
    with pytest.raises(TypeError, match="parentheses") as caught:
        kinetic.run(lambda: None)  # type: ignore[arg-type]
    assert "@kinetic.run()" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accelerator": "gpu-l5"}, "gpu-l4"),
        ({"accelerator": 4}, "accelerator"),
        ({"backend": "gek"}, "did you mean `gke`"),
        ({"backend": "slurm"}, "backends are local, gke"),
        ({"timeout": 0}, "positive number of seconds"),
        ({"timeout": "1h"}, "positive number of seconds"),
        ({"timeout": True}, "positive number of seconds"),
        ({"cpu": "two"}, "two"),
        ({"memory": "2GB"}, "2G"),
        ({"spot": "yes"}, "spot= takes True or False"),
        ({"debug": 1}, "debug= takes True or False"),
        ({"project": ""}, "project= takes a non-empty string"),
        ({"zone": 7}, "zone= takes a non-empty string"),
        ({"capture_env_vars": "WANDB_*"}, r'capture_env_vars=\["WANDB_\*"\]'),
        ({"capture_env_vars": ["A B"]}, "not the name of an environment variable"),
        ({"capture_env_vars": [3]}, "not the name of an environment variable"),
        ({"volumes": ["/data"]}, "dict of mount paths"),
        ({"volumes": {"data": None}}, "`/data`"),
        ({"volumes": {"/": None}}, "cannot be mounted over"),
        ({"volumes": {"/data/../etc": None}}, "cannot be mounted over"),
        ({"volumes": {"/data": None}}, "cannot mount volumes yet"),
    ],
    ids=str,
)
def test_a_bad_option_is_an_error_at_decoration(options: dict[str, Any], message: str) -> None:
    """A ValueError names the option and the nearest right way to write it."""
    with pytest.raises(ValueError, match=message):
        kinetic.run(**options)


def test_an_unknown_option_is_an_error() -> None:
    """Python itself says so: nothing swallows a typo."""
    with pytest.raises(TypeError, match="acelerator"):
        kinetic.run(acelerator="cpu")  # type: ignore[call-arg]


def test_what_this_version_cannot_do_is_said_before_anything_is_submitted(home: Path) -> None:
    """debug=True, another image and a backend without an engine are refused, not ignored."""

    def value() -> None: ...

    for options, told in [
        ({"debug": True}, "debug=True"),
        ({"container_image": "img:1"}, "container_image='img:1'"),
        ({"backend": "gke"}, "no engine for the backend `gke`"),
    ]:
        with pytest.raises(errors.BackendError, match=told):
            kinetic.run("cpu", **options)(value)()  # type: ignore[arg-type]
    assert kinetic.run("cpu", container_image="bundled")(lambda: 1)() == 1


def test_a_job_without_a_debugger_cannot_be_attached_to(home: Path) -> None:
    """`debug_attach` says that the job was not submitted for it."""
    job = cpu(lambda: None).run_async()
    with pytest.raises(RuntimeError, match="not submitted with debug=True"):
        job.debug_attach(local_port=5678, working_dir=None)
    job.result()


def test_ending_a_port_forward_ends_its_process() -> None:
    """`kinetic.debug.cleanup_port_forward` ends it, and is fine with one that has ended."""
    process = subprocess.Popen(["sleep", "600"])
    kinetic.debug.cleanup_port_forward(process)
    assert process.returncode is not None
    kinetic.debug.cleanup_port_forward(process)
    kinetic.debug.cleanup_port_forward(None)
