"""What every accelerator string means, and what a wrong one is told."""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetic.accelerators import Accelerator, names, parse
from kinetic.errors import OptionError

# name, count, node label, machine type
GPUS = [
    ("l4", 1, "nvidia-l4", "g2-standard-4"),
    ("l4", 2, "nvidia-l4", "g2-standard-24"),
    ("l4", 4, "nvidia-l4", "g2-standard-48"),
    ("l4", 8, "nvidia-l4", "g2-standard-96"),
    ("t4", 1, "nvidia-tesla-t4", "n1-standard-4"),
    ("t4", 2, "nvidia-tesla-t4", "n1-standard-8"),
    ("t4", 4, "nvidia-tesla-t4", "n1-standard-16"),
    ("p4", 1, "nvidia-tesla-p4", "n1-standard-4"),
    ("p4", 2, "nvidia-tesla-p4", "n1-standard-8"),
    ("p4", 4, "nvidia-tesla-p4", "n1-standard-16"),
    ("p100", 1, "nvidia-tesla-p100", "n1-standard-4"),
    ("p100", 2, "nvidia-tesla-p100", "n1-standard-8"),
    ("p100", 4, "nvidia-tesla-p100", "n1-standard-16"),
    ("v100", 1, "nvidia-tesla-v100", "n1-standard-8"),
    ("v100", 2, "nvidia-tesla-v100", "n1-standard-16"),
    ("v100", 4, "nvidia-tesla-v100", "n1-standard-32"),
    ("v100", 8, "nvidia-tesla-v100", "n1-standard-64"),
    ("a100", 1, "nvidia-tesla-a100", "a2-highgpu-1g"),
    ("a100", 2, "nvidia-tesla-a100", "a2-highgpu-2g"),
    ("a100", 4, "nvidia-tesla-a100", "a2-highgpu-4g"),
    ("a100", 8, "nvidia-tesla-a100", "a2-highgpu-8g"),
    ("a100", 16, "nvidia-tesla-a100", "a2-megagpu-16g"),
    ("a100-80gb", 1, "nvidia-a100-80gb", "a2-ultragpu-1g"),
    ("a100-80gb", 2, "nvidia-a100-80gb", "a2-ultragpu-2g"),
    ("a100-80gb", 4, "nvidia-a100-80gb", "a2-ultragpu-4g"),
    ("a100-80gb", 8, "nvidia-a100-80gb", "a2-ultragpu-8g"),
    ("h100", 1, "nvidia-h100-80gb", "a3-highgpu-1g"),
    ("h100", 2, "nvidia-h100-80gb", "a3-highgpu-2g"),
    ("h100", 4, "nvidia-h100-80gb", "a3-highgpu-4g"),
    ("h100", 8, "nvidia-h100-80gb", "a3-highgpu-8g"),
    ("h200", 8, "nvidia-h200-141gb", "a3-ultragpu-8g"),
    ("b200", 8, "nvidia-b200", "a4-highgpu-8g"),
]

# name, chips, topology, node label, machine type, hosts
TPUS = [
    ("v5litepod", 1, "1x1", "tpu-v5-lite-podslice", "ct5lp-hightpu-1t", 1),
    ("v5litepod", 4, "2x2", "tpu-v5-lite-podslice", "ct5lp-hightpu-4t", 1),
    ("v5litepod", 8, "2x4", "tpu-v5-lite-podslice", "ct5lp-hightpu-8t", 1),
    ("v5litepod", 16, "4x4", "tpu-v5-lite-podslice", "ct5lp-hightpu-4t", 4),
    ("v5litepod", 32, "4x8", "tpu-v5-lite-podslice", "ct5lp-hightpu-4t", 8),
    ("v5litepod", 64, "8x8", "tpu-v5-lite-podslice", "ct5lp-hightpu-4t", 16),
    ("v5litepod", 128, "8x16", "tpu-v5-lite-podslice", "ct5lp-hightpu-4t", 32),
    ("v5litepod", 256, "16x16", "tpu-v5-lite-podslice", "ct5lp-hightpu-4t", 64),
    ("v6e", 1, "1x1", "tpu-v6e-slice", "ct6e-standard-1t", 1),
    ("v6e", 4, "2x2", "tpu-v6e-slice", "ct6e-standard-4t", 1),
    ("v6e", 8, "2x4", "tpu-v6e-slice", "ct6e-standard-4t", 2),
    ("v6e", 16, "4x4", "tpu-v6e-slice", "ct6e-standard-4t", 4),
    ("v6e", 32, "4x8", "tpu-v6e-slice", "ct6e-standard-4t", 8),
    ("v6e", 64, "8x8", "tpu-v6e-slice", "ct6e-standard-4t", 16),
    ("v6e", 128, "8x16", "tpu-v6e-slice", "ct6e-standard-4t", 32),
    ("v6e", 256, "16x16", "tpu-v6e-slice", "ct6e-standard-4t", 64),
    ("v5p", 4, "2x2x1", "tpu-v5p-slice", "ct5p-hightpu-4t", 1),
    ("v5p", 8, "2x2x2", "tpu-v5p-slice", "ct5p-hightpu-4t", 2),
    ("v5p", 16, "2x2x4", "tpu-v5p-slice", "ct5p-hightpu-4t", 4),
    ("v5p", 32, "2x4x4", "tpu-v5p-slice", "ct5p-hightpu-4t", 8),
    ("v5p", 64, "4x4x4", "tpu-v5p-slice", "ct5p-hightpu-4t", 16),
    ("v5p", 128, "4x4x8", "tpu-v5p-slice", "ct5p-hightpu-4t", 32),
    ("v5p", 256, "4x8x8", "tpu-v5p-slice", "ct5p-hightpu-4t", 64),
    ("v5p", 512, "8x8x8", "tpu-v5p-slice", "ct5p-hightpu-4t", 128),
    ("v5p", 1024, "8x8x16", "tpu-v5p-slice", "ct5p-hightpu-4t", 256),
    ("v5p", 2048, "8x16x16", "tpu-v5p-slice", "ct5p-hightpu-4t", 512),
    ("v5p", 4096, "16x16x16", "tpu-v5p-slice", "ct5p-hightpu-4t", 1024),
    ("v5p", 6144, "16x16x24", "tpu-v5p-slice", "ct5p-hightpu-4t", 1536),
    ("v4", 4, "2x2x1", "tpu-v4-podslice", "ct4p-hightpu-4t", 1),
    ("v4", 8, "2x2x2", "tpu-v4-podslice", "ct4p-hightpu-4t", 2),
    ("v4", 16, "2x2x4", "tpu-v4-podslice", "ct4p-hightpu-4t", 4),
    ("v4", 32, "2x4x4", "tpu-v4-podslice", "ct4p-hightpu-4t", 8),
    ("v4", 64, "4x4x4", "tpu-v4-podslice", "ct4p-hightpu-4t", 16),
    ("v4", 128, "4x4x8", "tpu-v4-podslice", "ct4p-hightpu-4t", 32),
    ("v4", 256, "4x8x8", "tpu-v4-podslice", "ct4p-hightpu-4t", 64),
    ("v4", 512, "8x8x8", "tpu-v4-podslice", "ct4p-hightpu-4t", 128),
    ("v4", 1024, "8x8x16", "tpu-v4-podslice", "ct4p-hightpu-4t", 256),
    ("v4", 2048, "8x16x16", "tpu-v4-podslice", "ct4p-hightpu-4t", 512),
    ("v4", 4096, "16x16x16", "tpu-v4-podslice", "ct4p-hightpu-4t", 1024),
    ("v3", 4, "2x2", "tpu-v3-device", "ct3-hightpu-4t", 1),
    ("v3", 16, "4x4", "tpu-v3-slice", "ct3p-hightpu-4t", 4),
    ("v3", 32, "4x8", "tpu-v3-slice", "ct3p-hightpu-4t", 8),
    ("v3", 64, "8x8", "tpu-v3-slice", "ct3p-hightpu-4t", 16),
    ("v3", 128, "8x16", "tpu-v3-slice", "ct3p-hightpu-4t", 32),
    ("v3", 256, "16x16", "tpu-v3-slice", "ct3p-hightpu-4t", 64),
    ("v3", 512, "16x32", "tpu-v3-slice", "ct3p-hightpu-4t", 128),
    ("v3", 1024, "32x32", "tpu-v3-slice", "ct3p-hightpu-4t", 256),
    ("v3", 2048, "32x64", "tpu-v3-slice", "ct3p-hightpu-4t", 512),
]


@pytest.mark.parametrize(("name", "count", "label", "machine"), GPUS)
def test_every_gpu(name: str, count: int, label: str, machine: str) -> None:
    """Every GPU and count on offer is one host of the right machine, under every prefix."""
    expected = Accelerator(
        kind="gpu",
        name=name,
        count=count,
        topology=None,
        hosts=1,
        machine=machine,
        node_label=label,
        spot=False,
    )
    for prefix in ("", "gpu-", "gpu:"):
        assert parse(f"{prefix}{name}x{count}") == expected
    assert expected.label_key == "cloud.google.com/gke-accelerator"
    assert expected.per_host == count


@pytest.mark.parametrize(("name", "chips", "topology", "label", "machine", "hosts"), TPUS)
def test_every_tpu(
    name: str, chips: int, topology: str, label: str, machine: str, hosts: int
) -> None:
    """Every TPU slice on offer parses by chips and by topology to the same hosts and machine."""
    expected = Accelerator(
        kind="tpu",
        name=name,
        count=chips,
        topology=topology,
        hosts=hosts,
        machine=machine,
        node_label=label,
        spot=False,
    )
    for prefix in ("", "tpu-", "tpu:"):
        assert parse(f"{prefix}{name}-{chips}") == expected
        assert parse(f"{prefix}{name}-{topology}") == expected
    assert expected.label_key == "cloud.google.com/gke-tpu-accelerator"
    assert expected.per_host * hosts == chips


def test_nothing_else_is_offered() -> None:
    """The canonical names are exactly the CPU and the rows of the two tables."""
    gpus = [f"gpu-{name}" + (f"x{count}" if count > 1 else "") for name, count, *_ in GPUS]
    tpus = [f"tpu-{name}-{chips}" for name, chips, *_ in TPUS]
    assert names() == ["cpu", *gpus, *tpus]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("tpu-v3-8", "tpu-v3-4"),
        ("tpu-v5litepod-4", "tpu-v5litepod-4"),
        ("tpu-v5litepod-2x4", "tpu-v5litepod-8"),
        ("tpu-v5e-1", "tpu-v5litepod-1"),
        ("tpu-v6e-8", "tpu-v6e-8"),
        ("gpu-l4", "gpu-l4"),
        ("l4", "gpu-l4"),
        ("gpu-a100", "gpu-a100"),
        ("a100", "gpu-a100"),
        ("cpu", "cpu"),
    ],
)
def test_spellings_of_the_documentation(text: str, canonical: str) -> None:
    """Every spelling that the documentation uses is understood."""
    assert parse(text).canonical == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("gpu", "gpu-l4"),
        ("tpu", "tpu-v5litepod-4"),
        ("v5litepod", "tpu-v5litepod-4"),
        ("v5e", "tpu-v5litepod-4"),
        ("tpu:v5e", "tpu-v5litepod-4"),
        ("v6e", "tpu-v6e-8"),
        ("v5p", "tpu-v5p-8"),
        ("v4", "tpu-v4-4"),
        ("v3", "tpu-v3-4"),
        ("t4", "gpu-t4"),
        ("gpu:a100-80gb", "gpu-a100-80gb"),
        ("h200", "gpu-h200x8"),
        ("gpu-b200", "gpu-b200x8"),
    ],
)
def test_a_bare_name_has_a_default_size(text: str, canonical: str) -> None:
    """A name without a size means its default, which for a GPU is the fewest on offer."""
    assert parse(text).canonical == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("gpu:1", "gpu-h100"),
        ("gpu:2", "gpu-h100x2"),
        ("gpu:4", "gpu-h100x4"),
        ("gpu:8", "gpu-h100x8"),
        ("gpu:16", "gpu-a100x16"),
        ("tpu:1", "tpu-v6e-1"),
        ("tpu:4", "tpu-v6e-4"),
        ("tpu:8", "tpu-v6e-8"),
        ("tpu:256", "tpu-v6e-256"),
        ("tpu:512", "tpu-v5p-512"),
        ("tpu:6144", "tpu-v5p-6144"),
    ],
)
def test_a_count_takes_the_first_preference_that_offers_it(text: str, canonical: str) -> None:
    """A kind with a count is the most preferred accelerator that comes in that count."""
    assert parse(text).canonical == canonical


@pytest.mark.parametrize("size", ["1", "4", "8", "2x4", "16", "16x16"])
def test_v5e_is_v5litepod(size: str) -> None:
    """`v5e` is another name of `v5litepod`, in every form."""
    assert parse(f"v5e-{size}") == parse(f"v5litepod-{size}") == parse(f"tpu:v5e-{size}")


@pytest.mark.parametrize("text", ["  GPU-L4x2 ", "Gpu:L4X2", "\tl4x2\n"])
def test_case_and_surrounding_space_do_not_matter(text: str) -> None:
    """A string is trimmed and read without regard to case."""
    assert parse(text) == parse("gpu-l4x2")


@pytest.mark.parametrize("text", ["cpu", "gpu", "tpu", "gpu:4", "l4x2", "tpu-v5e-2x4", "TPU:v6e"])
def test_spot_is_a_suffix_or_an_argument(text: str) -> None:
    """`:spot` and `spot=True` mean the same, together too, and change nothing else."""
    plain = parse(text)
    spot = parse(f"{text}:spot")
    assert not plain.spot
    assert spot == parse(f"{text}:SPOT ", spot=True) == parse(text, spot=True)
    assert spot == dataclasses.replace(plain, spot=True)
    assert spot.canonical == f"{plain.canonical}:spot"


def test_the_cpu() -> None:
    """`cpu` is one host with no devices and nothing to select."""
    cpu = parse("cpu")
    assert (cpu.kind, cpu.name, cpu.count, cpu.topology, cpu.hosts) == ("cpu", "cpu", 0, None, 1)
    assert (cpu.machine, cpu.node_label, cpu.label_key, cpu.per_host) == (None, None, None, 0)


@pytest.mark.parametrize("text", ["v3-8", "tpu-v3-8", "TPU:V3-8"])
def test_v3_8_counts_cores_and_says_so(text: str) -> None:
    """`v3-8` is the slice with 4 chips, with a note that says so and makes it no other value."""
    accelerator = parse(text)
    assert accelerator == parse("v3-4")
    assert accelerator.count == 4
    assert accelerator.note == (
        "`v3-8` counts cores, as the cloud's own name for it does: "
        "this is the slice with 4 chips, `tpu-v3-4`."
    )


def test_only_v3_8_has_a_note() -> None:
    """No canonical spelling needs an explanation."""
    assert [name for name in names() if parse(name).note] == []


@pytest.mark.parametrize("text", ["v5litepod-8", "tpu-v5litepod-2x4", "v5e-8"])
def test_pathways_splits_the_8_chip_host(text: str) -> None:
    """Eight v5e chips are one host, and two hosts with four chips each under Pathways."""
    one, two = parse(text), parse(text, pathways=True)
    assert (one.hosts, one.machine, one.per_host) == (1, "ct5lp-hightpu-8t", 8)
    assert (two.hosts, two.machine, two.per_host) == (2, "ct5lp-hightpu-4t", 4)
    assert (two.count, two.topology, two.canonical) == (8, "2x4", "tpu-v5litepod-8")


def test_pathways_changes_nothing_else() -> None:
    """Every other accelerator is the same with and without Pathways."""
    changed = [name for name in names() if parse(name) != parse(name, pathways=True)]
    assert changed == ["tpu-v5litepod-8"]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("tpu-v5e-1", "v5e1"),
        ("v5litepod-2x4", "v5e8"),
        ("v6e-8", "v6e8"),
        ("v5p-64", "v5p64"),
        ("l4", "l4"),
        ("l4x2:spot", "l4x2"),
        ("a100x8", "a100x8"),
        ("a100-80gb", "a10080gb"),
        ("a100-80gbx4", "a10080gbx4"),
        ("cpu", "cpu"),
    ],
)
def test_the_slug_begins_a_job_id(text: str, slug: str) -> None:
    """The slug is the short name that a job id begins with."""
    assert parse(text).slug == slug


def test_slugs_are_distinct_and_plain() -> None:
    """No two accelerators share a slug, and a slug is valid in a Kubernetes name."""
    slugs = [parse(name).slug for name in names()]
    assert len(set(slugs)) == len(slugs)
    assert all(re.fullmatch("[a-z][a-z0-9]*", slug) for slug in slugs)


@given(st.sampled_from(names()), st.booleans(), st.booleans())
def test_canonical_parses_back(name: str, spot: bool, pathways: bool) -> None:
    """The canonical spelling of a value parses to that value and is its own canonical spelling."""
    accelerator = parse(name, spot=spot, pathways=pathways)
    again = parse(accelerator.canonical, pathways=pathways)
    assert again == accelerator
    assert again.canonical == accelerator.canonical


# Texts that are nearly right, where parsers go wrong.
_NEARLY = st.tuples(
    st.sampled_from(["", "gpu-", "gpu:", "tpu-", "tpu:"]),
    st.sampled_from(["", "l4", "l5", "a100-80gb", "v3", "v5e", "v6e", "h200", "cpu", "gpu"]),
    st.sampled_from(["", "x", "-", ":"]),
    st.from_regex("[0-9]{0,3}(x[0-9]{1,2})?", fullmatch=True),
    st.sampled_from(["", ":spot", ":sopt"]),
).map("".join)


@given(_NEARLY | st.text())
def test_any_text_parses_to_an_offer_or_is_an_option_error(text: str) -> None:
    """Whatever the text, it means something on offer or is refused as an option."""
    with suppress(OptionError):
        assert parse(text).canonical.removesuffix(":spot") in names()


@given(_NEARLY)
def test_a_suggested_spelling_parses(text: str) -> None:
    """Whoever types what a hint suggests is not refused again."""
    try:
        parse(text)
    except OptionError as error:
        suggested = re.findall("Did you mean `(.+)`[?]", error.hint or "")
    else:
        suggested = []
    for spelling in suggested:
        parse(spelling)


_CHOICES = (
    "GPUs: l4, t4, p4, p100, v100, a100, a100-80gb, h100, h200, b200; "
    "TPUs: v5e, v6e, v5p, v4, v3; or `cpu`. Write it like `gpu-l4x2` or `tpu-v5e-1`."
)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("gpu-l5", "Did you mean `gpu-l4`?"),
        ("l5", "Did you mean `gpu-l4`?"),
        ("gpu-l5x2:spot", "Did you mean `gpu-l4x2:spot`?"),
        ("gpu-h10", "Did you mean `gpu-h100`?"),
        ("tpu-v5lite-8", "Did you mean `tpu-v5litepod-8`?"),
        ("tpu-v5-lite-podslice", "Did you mean `tpu-v5litepod`?"),
        ("gpus", "Did you mean `gpu`?"),
        ("gpus:4", "Did you mean `gpu:4`?"),
        ("cppu", "Did you mean `cpu`?"),
        ("gpu-4", "Did you mean `gpu:4`?"),
        ("gpu-gpu", "Did you mean `gpu`?"),
        ("l4-2", "Did you mean `gpu-l4x2`?"),
        ("gpu:l4:2", "Did you mean `gpu-l4x2`?"),
        ("v5ex4", "Did you mean `tpu-v5e-4`?"),
        ("l4:sopt", "Did you mean `l4:spot`?"),
        ("l4:spot:spot", "Did you mean `l4:spot`?"),
        ("rtx4090", _CHOICES),
        ("gpu-", _CHOICES),
        (":spot", _CHOICES),
        ("", _CHOICES),
        ("  ", _CHOICES),
    ],
)
def test_an_unknown_accelerator_is_told_the_nearest(text: str, hint: str) -> None:
    """A string that means nothing is named, with the nearest spelling or else all the choices."""
    with pytest.raises(OptionError) as caught:
        parse(text)
    assert caught.value.args[0] == f"Unknown accelerator `{text}`"
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("gpu-l4x3", "`l4` comes in 1, 2, 4 or 8 GPUs", "gpu-l4x4"),
        ("gpu-l4x0", "`l4` comes in 1, 2, 4 or 8 GPUs", "gpu-l4"),
        ("a100-80gbx16:spot", "`a100-80gb` comes in 1, 2, 4 or 8 GPUs", "gpu-a100-80gbx8:spot"),
        ("h200x1", "`h200` comes in 8 GPUs", "gpu-h200x8"),
        ("tpu-v5e-3", "`v5e` comes in 1, 4, 8, 16, 32, 64, 128 or 256 chips", "tpu-v5e-4"),
        (
            "v5litepod-4x2",
            "`v5litepod` comes in topologies 1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16 or 16x16",
            "tpu-v5litepod-8",
        ),
        (
            "v3-2x4",
            "`v3` comes in topologies 2x2, 4x4, 4x8, 8x8, 8x16, 16x16, 16x32, 32x32 or 32x64",
            "tpu-v3-4",
        ),
        ("gpu:3", "`gpu:N` comes in 1, 2, 4, 8 or 16 GPUs", "gpu:4"),
        (
            "tpu:2",
            "`tpu:N` comes in 1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096 or 6144 chips",
            "tpu:1",
        ),
    ],
)
def test_a_size_that_is_not_offered_lists_those_that_are(
    text: str, problem: str, hint: str
) -> None:
    """A known accelerator in a wrong size is answered with its sizes and the nearest of them."""
    with pytest.raises(OptionError) as caught:
        parse(text)
    assert caught.value.args[0] == f"`{text}` is not offered: {problem}"
    assert caught.value.hint == f"Did you mean `{hint}`?"


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("tpu-l4", "`l4` is a GPU, not a TPU", "gpu-l4"),
        ("TPU:A100-80gbx2", "`a100-80gb` is a GPU, not a TPU", "gpu-a100-80gbx2"),
        ("tpu-l4x3", "`l4` is a GPU, not a TPU", "gpu-l4x4"),
        ("gpu-v6e", "`v6e` is a TPU, not a GPU", "tpu-v6e"),
        ("gpu:v5e-2x4:spot", "`v5e` is a TPU, not a GPU", "tpu-v5e-2x4:spot"),
        ("gpu-cpu", "`cpu` is the CPU, not a GPU", "cpu"),
    ],
)
def test_the_wrong_prefix_is_said_to_be_wrong(text: str, problem: str, hint: str) -> None:
    """A GPU called a TPU, or the other way round, is told what it is."""
    with pytest.raises(OptionError) as caught:
        parse(text)
    assert caught.value.args[0] == f"`{text}`: {problem}"
    assert caught.value.hint == f"Did you mean `{hint}`?"


@pytest.mark.parametrize("text", ["cpu:4", "cpux2", "cpu-8"])
def test_the_cpu_takes_no_count(text: str) -> None:
    """A count of CPUs is pointed to the option that takes one."""
    with pytest.raises(OptionError, match="`cpu` takes no count") as caught:
        parse(text)
    assert caught.value.hint == "Write `cpu`, and ask for cores with `cpu=`."


@pytest.mark.parametrize("value", [None, 8, b"gpu-l4", ["gpu-l4"]])
def test_only_a_string_names_an_accelerator(value: Any) -> None:
    """Anything that is no string is an option error too."""
    with pytest.raises(OptionError) as caught:
        parse(value)
    assert caught.value.args[0] == f"An accelerator is a string, not `{value!r}`"
    assert caught.value.hint == _CHOICES


def test_an_accelerator_cannot_be_changed() -> None:
    """A parsed accelerator is a value: it is hashable and no field can be set."""
    accelerator = parse("gpu-l4")
    assert {accelerator: 1}[parse("gpu-l4x1")] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        accelerator.spot = True  # type: ignore[misc]
