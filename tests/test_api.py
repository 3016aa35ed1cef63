"""The public names, parameters and defaults are those of the API reference."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import subprocess
import sys
from typing import Any

import pytest

import kinetic
import kinetic.job_status
import kinetic.jobs
from kinetic import errors

RUN = {
    "accelerator": "tpu-v5e-1",
    "container_image": None,
    "base_image_repo": None,
    "zone": None,
    "project": None,
    "capture_env_vars": None,
    "cluster": None,
    "backend": None,
    "namespace": None,
    "volumes": None,
    "spot": False,
    "output_dir": None,
    "debug": False,
}
RESULT = {
    "timeout": None,
    "cleanup": None,
    "cleanup_timeout": 180,
    "cleanup_poll_interval": 2,
    "stream_logs": None,
    "on_status_change": None,
}
ENDING = {"cleanup_timeout": 180, "cleanup_poll_interval": 2}
WHERE = {"project": None, "cluster": None}
REQUIRED = inspect.Parameter.empty


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (kinetic.attach, {"job_id": REQUIRED, **WHERE}),
        (kinetic.list_jobs, {"project": None, "zone": None, "cluster": None, "namespace": None}),
        (kinetic.JobHandle.from_dict, {"d": REQUIRED}),
        (
            kinetic.JobHandle.from_job_context,
            dict.fromkeys(("ctx", "backend_name", "namespace", "k8s_name"), REQUIRED),
        ),
        (kinetic.JobHandle.to_dict, {}),
        (kinetic.JobHandle.status, {}),
        (kinetic.JobHandle.logs, {"follow": False}),
        (kinetic.JobHandle.tail, {"n": 100}),
        (kinetic.JobHandle.debug_attach, {"local_port": 5678, "working_dir": None}),
        (kinetic.JobHandle.result, RESULT),
        (kinetic.JobHandle.cancel, ENDING),
        (kinetic.JobHandle.cleanup, {"k8s": True, "gcs": True, **ENDING}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_signatures_are_the_references(function: Any, parameters: dict[str, Any]) -> None:
    """Names, order and defaults, to the letter."""
    actual = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    }
    assert list(actual.items()) == list(parameters.items())


def test_run_takes_the_references_parameters_and_three_more() -> None:
    """The reference's come first, in order; ours are keyword-only."""
    parameters = inspect.signature(kinetic.run).parameters
    positional = {n: p.default for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY}
    assert list(positional.items()) == list(RUN.items())
    extra = {n: p.default for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert extra == {"timeout": None, "cpu": None, "memory": None}


def test_a_handle_has_the_references_fields() -> None:
    """All of them, in order, with their defaults."""
    fields = {f.name: f.default for f in dataclasses.fields(kinetic.JobHandle)}
    required = (
        "job_id backend project cluster_name zone namespace bucket_name k8s_name image_uri "
        "accelerator func_name display_name created_at"
    ).split()
    optional = {"group_id": None, "group_kind": None, "group_index": None, "debug": False}
    assert list(fields) == [*required, *optional]
    assert {name: fields[name] for name in optional} == optional


def test_a_handle_is_built_from_a_context() -> None:
    """`from_job_context` takes what is known, and adds the backend, namespace and name."""
    known = dict.fromkeys(
        "job_id project cluster_name zone bucket_name image_uri accelerator func_name "
        "display_name created_at".split(),
        "x",
    )
    context = kinetic.jobs.JobContext(
        **known, group_id="grp-1", group_kind="map", group_index=3, debug=True
    )
    handle: kinetic.JobHandle[Any] = kinetic.JobHandle.from_job_context(context, "gke", "ns", "k")
    assert handle.to_dict() == {
        **known,
        "backend": "gke",
        "namespace": "ns",
        "k8s_name": "k",
        "group_id": "grp-1",
        "group_kind": "map",
        "group_index": 3,
        "debug": True,
    }
    assert kinetic.JobHandle.from_dict(handle.to_dict()) == handle


def test_what_is_no_handle_is_refused() -> None:
    """A dict that lacks a field is a ValueError, not a half-made handle."""
    with pytest.raises(ValueError, match="not a job handle"):
        kinetic.JobHandle.from_dict({"job_id": "x"})


def test_the_statuses_are_the_references() -> None:
    """Five of them, importable from both modules."""
    assert issubclass(kinetic.JobStatus, enum.Enum)
    names = ["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "NOT_FOUND"]
    assert [status.value for status in kinetic.JobStatus] == names
    assert [status.name for status in kinetic.JobStatus] == names
    assert kinetic.jobs.JobStatus is kinetic.job_status.JobStatus is kinetic.JobStatus


def test_the_public_list_is_the_sorted_truth() -> None:
    """`__all__` is sorted, every name in it exists, and `dir()` shows it."""
    names = [name for name in kinetic.__all__ if not name.startswith("_")]
    assert names == sorted(names)
    for name in kinetic.__all__:
        assert getattr(kinetic, name) is not None
        assert name in dir(kinetic)
    with pytest.raises(AttributeError, match="nonsense"):
        kinetic.nonsense  # noqa: B018


def test_errors_are_the_builtins_users_expect() -> None:
    """Whoever catches the builtin catches ours; whoever catches ours catches all of them."""
    expected = {
        errors.OptionError: ValueError,
        errors.NotDecoratable: TypeError,
        errors.NotPicklable: TypeError,
        errors.ObjectNotFound: FileNotFoundError,
        errors.BackendUnavailable: RuntimeError,
        errors.JobNotFound: LookupError,
        errors.ResultTimeout: TimeoutError,
        errors.ResultMissing: RuntimeError,
        errors.JobFailed: RuntimeError,
    }
    for kind, builtin in expected.items():
        assert issubclass(kind, builtin)
        assert issubclass(kind, kinetic.KineticError)


def test_the_error_tree_is_drawn_as_it_is() -> None:
    """The picture at the top of errors.py names every class, under its parent."""
    assert errors.__doc__
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert f"{name} " in f"{errors.__doc__} ".replace("\n", " "), name


HEAVY = {"cloudpickle", "click", "rich", "obstore", "lightkube", "google.auth", "numpy", "asyncio"}


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        ("import kinetic", {*HEAVY, "json", "inspect", "kinetic.jobs", "kinetic.errors"}),
        (
            "import kinetic.runner.attempt",
            {*HEAVY, "kinetic.backends", "kinetic.cli", "kinetic.jobs"} - {"cloudpickle"},
        ),
        (
            "import sys; sys.argv = ['kinetic', '--help']\n"
            "from kinetic.cli import main\n"
            "try: main()\nexcept SystemExit: pass",
            {*HEAVY, "kinetic.jobs", "kinetic.backends", "kinetic.function"} - {"click"},
        ),
    ],
    ids=["import kinetic", "runner", "kinetic --help"],
)
def test_import_budgets(code: str, forbidden: set[str]) -> None:
    """What starts often loads little: these modules stay out."""
    tail = "\nimport sys; print('loaded:', *sorted(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.rpartition("loaded:")[2].split())
    assert loaded & forbidden == set()
