"""What an accelerator string means: which devices, on how many hosts of which machine type.

The two tables are the whole offer. Every valid spelling is a key of one index built from them, so
parsing is a lookup and the rest of this module is about telling a wrong string what it should be.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from kinetic.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Kind: TypeAlias = Literal["cpu", "gpu", "tpu"]


class _Gpus(NamedTuple):
    name: str
    label: str
    machine: str
    sizes: Mapping[int, int]  # GPUs on the machine -> the number in its type


class _Slices(NamedTuple):
    name: str
    label: str
    machine: str
    per_host: int
    topologies: str


_GPUS = (
    _Gpus("l4", "nvidia-l4", "g2-standard-{}", {1: 4, 2: 24, 4: 48, 8: 96}),
    _Gpus("t4", "nvidia-tesla-t4", "n1-standard-{}", {1: 4, 2: 8, 4: 16}),
    _Gpus("p4", "nvidia-tesla-p4", "n1-standard-{}", {1: 4, 2: 8, 4: 16}),
    _Gpus("p100", "nvidia-tesla-p100", "n1-standard-{}", {1: 4, 2: 8, 4: 16}),
    _Gpus("v100", "nvidia-tesla-v100", "n1-standard-{}", {1: 8, 2: 16, 4: 32, 8: 64}),
    _Gpus("a100", "nvidia-tesla-a100", "a2-highgpu-{}g", {1: 1, 2: 2, 4: 4, 8: 8}),
    _Gpus("a100", "nvidia-tesla-a100", "a2-megagpu-{}g", {16: 16}),
    _Gpus("a100-80gb", "nvidia-a100-80gb", "a2-ultragpu-{}g", {1: 1, 2: 2, 4: 4, 8: 8}),
    _Gpus("h100", "nvidia-h100-80gb", "a3-highgpu-{}g", {1: 1, 2: 2, 4: 4, 8: 8}),
    _Gpus("h200", "nvidia-h200-141gb", "a3-ultragpu-{}g", {8: 8}),
    _Gpus("b200", "nvidia-b200", "a4-highgpu-{}g", {8: 8}),
)

_TO_256 = "4x4 4x8 8x8 8x16 16x16"
_TO_4096 = "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16 16x16x16"

_TPUS = (
    _Slices("v5litepod", "tpu-v5-lite-podslice", "ct5lp-hightpu-1t", 1, "1x1"),
    _Slices("v5litepod", "tpu-v5-lite-podslice", "ct5lp-hightpu-4t", 4, "2x2"),
    _Slices("v5litepod", "tpu-v5-lite-podslice", "ct5lp-hightpu-8t", 8, "2x4"),
    _Slices("v5litepod", "tpu-v5-lite-podslice", "ct5lp-hightpu-4t", 4, _TO_256),
    _Slices("v6e", "tpu-v6e-slice", "ct6e-standard-1t", 1, "1x1"),
    _Slices("v6e", "tpu-v6e-slice", "ct6e-standard-4t", 4, f"2x2 2x4 {_TO_256}"),
    _Slices("v5p", "tpu-v5p-slice", "ct5p-hightpu-4t", 4, f"{_TO_4096} 16x16x24"),
    _Slices("v4", "tpu-v4-podslice", "ct4p-hightpu-4t", 4, _TO_4096),
    _Slices("v3", "tpu-v3-device", "ct3-hightpu-4t", 4, "2x2"),
    _Slices("v3", "tpu-v3-slice", "ct3p-hightpu-4t", 4, f"{_TO_256} 16x32 32x32 32x64"),
)

_DEFAULT_CHIPS = {"v5litepod": 4, "v6e": 8, "v5p": 8, "v4": 4, "v3": 4}
_SHORT_NAME = {"v5litepod": "v5e"}

# What a bare kind means, and which name `gpu:N` or `tpu:N` takes first.
_BARE = {"gpu": "l4", "tpu": "v5litepod-4"}
_PREFERENCE = {
    "gpu": ("h100", "a100-80gb", "a100", "l4", "v100", "t4", "p100", "p4"),
    "tpu": ("v6e", "v5p", "v5litepod", "v4", "v3"),
}

_CORES_NOTE = (
    "`v3-8` counts cores, as the cloud's own name for it does: "
    "this is the slice with 4 chips, `tpu-v3-4`."
)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The devices of one job; `note` is a sentence for the user where the string meant a surprise.

    `count` is GPUs or TPU chips over all hosts, `machine` the type of one host and `node_label`
    the value of the node label whose name is `label_key`.
    """

    kind: Kind
    name: str
    count: int = 0
    topology: str | None = None
    hosts: int = 1
    machine: str | None = None
    node_label: str | None = None
    spot: bool = False
    note: str | None = field(default=None, compare=False)

    @property
    def label_key(self) -> str | None:
        """The node label that selects this accelerator, None for `cpu`."""
        return {
            "cpu": None,
            "gpu": "cloud.google.com/gke-accelerator",
            "tpu": "cloud.google.com/gke-tpu-accelerator",
        }[self.kind]

    @property
    def per_host(self) -> int:
        """How many devices one host has."""
        return self.count // self.hosts

    @property
    def canonical(self) -> str:
        """The one spelling that parses to this value, given the same `pathways`."""
        prefix = "" if self.kind == "cpu" else f"{self.kind}-"
        chips = f"-{self.count}" if self.kind == "tpu" else ""
        return prefix + self.name + self._times + chips + (":spot" if self.spot else "")

    @property
    def slug(self) -> str:
        """Lower-case letters and digits only, short enough to begin a job id."""
        name = _SHORT_NAME.get(self.name, self.name).replace("-", "")
        chips = str(self.count) if self.kind == "tpu" else ""
        return name + self._times + chips

    @property
    def _times(self) -> str:
        return f"x{self.count}" if self.kind == "gpu" and self.count > 1 else ""


def parse(text: str, *, spot: bool = False, pathways: bool = False) -> Accelerator:
    """Read an accelerator string; `spot` adds to a `:spot` suffix, `pathways` chooses its hosts.

    Raises `OptionError` saying what is wrong with it and which spelling is nearest.
    """
    body = _as_text(text).strip().lower()
    plain = body.removesuffix(":spot")
    found = _index().get(plain)
    if found is None:
        raise _error(text, plain, suffix=body[len(plain) :])
    if pathways and (found.name, found.topology) == ("v5litepod", "2x4"):
        # Pathways schedules 4-chip hosts, so the 8-chip machine does not serve it.
        found = replace(found, hosts=2, machine="ct5lp-hightpu-4t")
    return replace(found, spot=True) if spot or plain != body else found


def names() -> list[str]:
    """Every canonical spelling, without `:spot`."""
    return [accelerator.canonical for accelerator in _offer()]


# What is offered ---------------------------------------------------------------------------------


def _offer() -> Iterator[Accelerator]:
    yield Accelerator("cpu", "cpu")
    for gpu in _GPUS:
        for count, size in gpu.sizes.items():
            machine = gpu.machine.format(size)
            yield Accelerator("gpu", gpu.name, count, None, 1, machine, gpu.label)
    for tpu in _TPUS:
        for topology in tpu.topologies.split():
            chips = math.prod(map(int, topology.split("x")))
            hosts = chips // tpu.per_host
            yield Accelerator("tpu", tpu.name, chips, topology, hosts, tpu.machine, tpu.label)


@cache
def _families() -> dict[str, list[Accelerator]]:
    """Every size of each name, smallest first, under the short names too."""
    families: dict[str, list[Accelerator]] = {}
    for accelerator in _offer():
        families.setdefault(accelerator.name, []).append(accelerator)
    return families | {short: families[name] for name, short in _SHORT_NAME.items()}


@cache
def _index() -> dict[str, Accelerator]:
    """Every spelling there is, `:spot` aside."""
    index: dict[str, Accelerator] = {}
    for name, family in _families().items():
        for spelling, accelerator in _spellings(name, family):
            index |= dict.fromkeys(_prefixed(accelerator.kind, spelling), accelerator)
    index |= dict.fromkeys(_prefixed("tpu", "v3-8"), replace(index["v3-4"], note=_CORES_NOTE))
    for kind, name in _BARE.items():
        index[kind] = index[name]
        index |= {f"{kind}:{count}": chosen for count, chosen in _preferred(kind).items()}
    return index


def _spellings(name: str, family: list[Accelerator]) -> Iterator[tuple[str, Accelerator]]:
    default = _DEFAULT_CHIPS.get(family[0].name, family[0].count)
    for accelerator in family:
        if accelerator.count == default:
            yield name, accelerator
        if accelerator.kind == "gpu":
            yield f"{name}x{accelerator.count}", accelerator
        if accelerator.kind == "tpu":
            yield f"{name}-{accelerator.count}", accelerator
            yield f"{name}-{accelerator.topology}", accelerator


def _prefixed(kind: Kind, spelling: str) -> tuple[str, ...]:
    return (spelling,) if kind == "cpu" else (spelling, f"{kind}-{spelling}", f"{kind}:{spelling}")


def _preferred(kind: str) -> dict[int, Accelerator]:
    """For each count, the first accelerator in preference that offers it."""
    worst_first = reversed(_PREFERENCE[kind])
    chosen = {each.count: each for name in worst_first for each in _families()[name]}
    return dict(sorted(chosen.items()))


# What a wrong string should have been ------------------------------------------------------------

_SHAPE = re.compile(
    r"(?:(?P<prefix>gpu|tpu)[-:])?(?P<name>.*?)(?P<size>[-x:][0-9]{1,6}(?:x[0-9]{1,6})*)?",
    re.DOTALL,
)
_A = {"cpu": "the CPU", "gpu": "a GPU", "tpu": "a TPU"}


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise OptionError(f"An accelerator is a string, not `{value!r}`", hint=_choices())


def _error(text: str, body: str, suffix: str) -> OptionError:
    shape = _SHAPE.fullmatch(body)
    assert shape is not None  # the name may be anything, the rest may be missing
    prefix, name, size = shape["prefix"] or "", shape["name"], shape["size"] or ""
    if prefix and re.fullmatch("[0-9]{1,6}", name):
        by_count = {f"{prefix}:{count}": each for count, each in _preferred(prefix).items()}
        return _bad_size(text, f"`{prefix}:N`", f":{name}", by_count, suffix)
    family = _families().get(name)
    if family is None:
        return OptionError(f"Unknown accelerator `{text}`", hint=_guess(prefix, name, size, suffix))
    # Suggestions keep the user's own name for it: `v5e` stays `v5e`.
    spelled = {each.canonical.replace(each.name, name, 1): each for each in family}
    kind = family[0].kind
    if prefix and prefix != kind:
        right = f"{kind}-{name}{size}"
        hint = _did_you_mean(right if right in _index() else _nearest(spelled, size), suffix)
        return OptionError(f"`{text}`: `{name}` is {_A[kind]}, not {_A[prefix]}", hint=hint)
    if kind == "cpu":
        hint = "Write `cpu`, and ask for cores with `cpu=`."
        return OptionError(f"`{text}`: `cpu` takes no count", hint=hint)
    return _bad_size(text, f"`{name}`", size, spelled, suffix)


def _bad_size(
    text: str, subject: str, size: str, spelled: Mapping[str, Accelerator], suffix: str
) -> OptionError:
    """`subject` is known, but not in this size, or the size is not spelled this way."""
    offered = list(spelled.values())
    hint = _did_you_mean(_nearest(spelled, size), suffix)
    if size[1:] in {str(each.count) for each in offered}:
        return OptionError(f"Unknown accelerator `{text}`", hint=hint)
    if "x" in size[1:] and offered[0].kind == "tpu":
        sizes = f"topologies {_either(str(each.topology) for each in offered)}"
    else:
        unit = "chips" if offered[0].kind == "tpu" else "GPUs"
        sizes = f"{_either(str(each.count) for each in offered)} {unit}"
    return OptionError(f"`{text}` is not offered: {subject} comes in {sizes}", hint=hint)


def _nearest(spelled: Mapping[str, Accelerator], size: str) -> str:
    """The spelling whose count is closest to `size`; of two, the larger, which has room."""
    wanted = math.prod(map(int, re.findall("[0-9]+", size)))
    return min(spelled, key=lambda s: (abs(spelled[s].count - wanted), -spelled[s].count))


def _guess(prefix: str, name: str, size: str, suffix: str) -> str:
    """A hint for a name that nobody knows."""
    from difflib import get_close_matches

    stem, _, option = name.rpartition(":")
    if stem in _index() and option.isalpha():
        return _did_you_mean(stem, ":spot")
    kinds = {bare: bare for bare in ("cpu", *_BARE)}
    known = {each: family[0].kind for each, family in _families().items()} | kinds
    # Half the letters are enough, because names are short; the first one is rarely the wrong one.
    alike = [each for each in known if each[0] == name[:1] and prefix in ("", known[each])]
    close = get_close_matches(name, alike, n=1, cutoff=0.5)
    if not close:
        return _choices()
    spelling = close[0] + size if close[0] + size in _index() else close[0]
    return _did_you_mean(spelling if close[0] in kinds else f"{known[close[0]]}-{spelling}", suffix)


def _did_you_mean(spelling: str, suffix: str) -> str:
    return f"Did you mean `{spelling}{suffix}`?"


def _choices() -> str:
    gpus = ", ".join(dict.fromkeys(gpu.name for gpu in _GPUS))
    tpus = ", ".join(_SHORT_NAME.get(name, name) for name in _DEFAULT_CHIPS)
    return f"GPUs: {gpus}; TPUs: {tpus}; or `cpu`. Write it like `gpu-l4x2` or `tpu-v5e-1`."


def _either(items: Iterable[str]) -> str:
    *most, last = items
    return f"{', '.join(most)} or {last}" if most else last
