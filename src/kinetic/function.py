"""`kinetic.run`: a decorated function that runs as a job."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from kinetic import notices
from kinetic.capture.function import reference_to
from kinetic.errors import NotDecoratable
from kinetic.options import check_options
from kinetic.pickling import FunctionReference
from kinetic.submit import Call, submit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinetic.jobs import JobHandle
    from kinetic.options import JobOptions

P = ParamSpec("P")
R = TypeVar("R")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")


class RemoteFunction(Generic[P, R]):
    """A function whose calls are jobs. Looks like the function it wraps."""

    __name__: str
    __wrapped__: Callable[..., R]

    def __init__(
        self, function: Callable[P, R], options: JobOptions, bound: tuple[object, ...] = ()
    ) -> None:
        functools.update_wrapper(self, function)
        self._options = options
        self._bound = bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run as a job, show what it prints, and return what it returns."""
        handle = self.run_async(*args, **kwargs)
        try:
            return handle.result(stream_logs=True)
        except KeyboardInterrupt:
            notices.say(notices.stopped_waiting(handle.job_id))
            raise

    def run_async(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Submit as a job and return its handle at once."""
        _check_arguments(self.__wrapped__, (*self._bound, *args), kwargs)
        call = Call(self.__wrapped__, _name_of(self.__wrapped__), (*self._bound, *args), kwargs)
        return submit(call, self._options)

    @overload
    def __get__(self, instance: None, owner: type) -> RemoteFunction[P, R]: ...
    @overload
    def __get__(
        self: RemoteFunction[Concatenate[T, Q], S], instance: T, owner: type | None = None
    ) -> RemoteFunction[Q, S]: ...
    def __get__(self, instance: object, owner: type | None = None) -> RemoteFunction[Any, Any]:
        if instance is None:
            return self
        return RemoteFunction(self.__wrapped__, self._options, (instance,))

    def __reduce__(self) -> tuple[Any, ...]:
        reference = None if self._bound else reference_to(self.__wrapped__)
        if reference is not None:
            return FunctionReference.find, (reference,)
        return RemoteFunction, (self.__wrapped__, self._options, self._bound)

    def __repr__(self) -> str:
        return f"<kinetic.run {_name_of(self.__wrapped__)} on {self._options.accelerator_name}>"


def run(
    accelerator: str = "tpu-v5e-1",
    container_image: str | None = None,
    base_image_repo: str | None = None,
    zone: str | None = None,
    project: str | None = None,
    capture_env_vars: list[str] | None = None,
    cluster: str | None = None,
    backend: str | None = None,
    namespace: str | None = None,
    volumes: Mapping[str, Any] | None = None,
    spot: bool = False,
    output_dir: str | None = None,
    debug: bool = False,
    *,
    timeout: float | None = None,
    cpu: float | str | None = None,
    memory: int | str | None = None,
) -> Callable[[Callable[P, R]], RemoteFunction[P, R]]:
    """Make calls of the decorated function run as jobs.

    Args:
        accelerator: what to run on, such as `tpu-v5e-1`, `gpu-l4`, `gpu-a100x8` or `cpu`.
        container_image: `bundled` (the default), `prebuilt`, or the URI of an image.
        base_image_repo: where prebuilt base images come from.
        zone: the cloud zone; else `KINETIC_ZONE`, the profile's, `us-central1-a`.
        project: the cloud project; else `KINETIC_PROJECT`, the profile's, `GOOGLE_CLOUD_PROJECT`.
        capture_env_vars: variables the job gets: exact names, or prefixes that end in `*`.
        cluster: the cluster; else `KINETIC_CLUSTER`, the profile's, `kinetic-cluster`.
        backend: `local`, `gke`, `kubernetes` or `pathways`; by default what is configured.
        namespace: the Kubernetes namespace; else `KINETIC_NAMESPACE`, the profile's, `default`.
        volumes: data to be mounted, by absolute path.
        spot: whether to run on machines that may be taken away.
        output_dir: where the job's outputs go; the job finds it in `KINETIC_OUTPUT_DIR`.
        debug: whether to wait for a debugger before the function is called.
        timeout: the seconds an attempt may run; counted from its start, enforced by the backend.
        cpu: the cores a job needs, as a number or a Kubernetes quantity such as `500m`.
        memory: the memory a job may use, in bytes or as a Kubernetes quantity such as `2Gi`.

    Returns:
        A decorator. The decorated function blocks and returns the value; its `run_async` returns
        a `JobHandle` at once.
    """
    if callable(accelerator):
        raise NotDecoratable(
            "`kinetic.run` needs its parentheses", hint="write `@kinetic.run()` above the function"
        )
    options = check_options(
        accelerator=accelerator,
        container_image=container_image,
        base_image_repo=base_image_repo,
        zone=zone,
        project=project,
        capture_env_vars=capture_env_vars,
        cluster=cluster,
        backend=backend,
        namespace=namespace,
        volumes=volumes,
        spot=spot,
        output_dir=output_dir,
        debug=debug,
        timeout=timeout,
        cpu=cpu,
        memory=memory,
    )

    def decorate(function: Callable[P, R]) -> RemoteFunction[P, R]:
        _check_decoratable(function)
        return RemoteFunction(function, options)

    return decorate


def _check_decoratable(function: object) -> None:
    kind = type(function).__name__
    if isinstance(function, classmethod | staticmethod):
        raise NotDecoratable(
            f"a {kind} object cannot be decorated with `kinetic.run`",
            hint=f"put `@{kind}` above `@kinetic.run(...)`, not below it",
        )
    if hasattr(function, "cache_clear") and hasattr(function, "__wrapped__"):
        raise NotDecoratable(
            "a function with `functools.lru_cache` or `cache` cannot be decorated",
            hint="jobs run elsewhere, so it would never hit: put the cache on an inner function",
        )
    if isinstance(function, RemoteFunction):
        raise NotDecoratable("this function is decorated with `kinetic.run` already")
    if not callable(function) or isinstance(function, type):
        raise NotDecoratable(
            f"`kinetic.run` decorates functions, not {kind} objects",
            hint="decorate a function that uses it",
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise NotDecoratable(
            "an async function cannot be decorated with `kinetic.run`",
            hint="decorate a plain function that calls `asyncio.run(...)`; await its `run_async()`",
        )
    if inspect.isgeneratorfunction(function):
        raise NotDecoratable(
            "a generator function cannot be decorated with `kinetic.run`",
            hint="a generator cannot leave its process: return a list, or write to the output dir",
        )


def _check_arguments(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    """A call that could never work fails here rather than in a job."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # some builtins do not tell
    signature.bind(*args, **kwargs)


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
