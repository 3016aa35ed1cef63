"""What a job sees of the caller's world: source, paths, imports, environment."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kinetic.capture import environment, source
from kinetic.errors import OptionError
from kinetic.submit import new_job_id
from tests import agents


def files(root: Path, **contents: str) -> None:
    """Write files; double underscores in names are slashes."""
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("_py", ".py").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# Running things as users do.


def test_a_script_beside_its_modules_and_data(home: Path, project: Path) -> None:
    """A function from `__main__` imports siblings and reads relative paths as it did locally."""
    files(project, helper_py="VALUE = 5", data__x_txt="from data")
    text = (
        "import kinetic, helper\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def f():\n"
        "    import helper as again\n"
        "    return [helper.VALUE, again.VALUE, open('data/x.txt').read()]\n"
        "if __name__ == '__main__':\n"
        "    print(f())\n"
    )
    assert agents.output(agents.script(project, text, home)) == "[5, 5, 'from data']\n"


def test_a_src_layout_package_and_a_subdirectory(home: Path, project: Path) -> None:
    """A package in src/, run from a subdirectory: imports and the working directory match."""
    files(
        project,
        src__pkg____init___py="",
        src__pkg__inner____init___py="",
        src__pkg__inner__work_py=(
            "import os, kinetic\n"
            "from .. import other\n"
            "STATE = object()\n"
            "@kinetic.run(accelerator='cpu')\n"
            "def f():\n"
            "    return [os.path.basename(os.getcwd()), open('here.txt').read(), other.X, "
            "STATE is not None]\n"
        ),
        src__pkg__other_py="X = 9",
        notes__here_txt="here",
    )
    (project / "src/pkg/__init__.py").touch()
    (project / "src/pkg/inner/__init__.py").touch()
    ran = subprocess.run(
        [sys.executable, "-c", "from pkg.inner.work import f; print(f())"],
        cwd=project / "notes",
        env={
            **agents.base_environment(),
            **agents.environment(home),
            "PYTHONPATH": str(project / "src"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "['notes', 'here', 9, True]\n"


def test_a_repl_or_notebook_uses_the_working_directory(home: Path, project: Path) -> None:
    """Functions typed in by hand travel by value, with the working directory's modules."""
    files(project, helper_py="VALUE = 6")
    typed = (
        "import kinetic, helper\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class P:\n"
        "    x: int\n"
        "\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def f(p):\n"
        "    import helper\n"
        "    return P(p.x + helper.VALUE)\n"
        "\n"
        "print(f(P(1)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=typed,
        cwd=project,
        env={**agents.base_environment(), **agents.environment(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "P(x=7)\n", ran.stderr


def test_a_job_writes_to_a_copy(home: Path, project: Path) -> None:
    """What a job writes, changes or deletes below its working directory is its own affair."""
    files(project, keep_txt="original", gone_txt="still here")
    text = (
        "import kinetic, os\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def vandalise():\n"
        "    seen = [open('keep.txt').read(), sorted(os.listdir('.'))]\n"
        "    open('keep.txt', 'w').write('VANDALISED')\n"
        "    open('new.txt', 'w').write('x')\n"
        "    os.remove('gone.txt')\n"
        "    os.chmod('script.py', 0o400)\n"
        "    return seen\n"
        "first, second = vandalise(), vandalise()\n"
        "assert first == second, (first, second)\n"
    )
    agents.output(agents.script(project, text, home))
    assert (project / "keep.txt").read_text() == "original"
    assert (project / "gone.txt").read_text() == "still here"
    assert not (project / "new.txt").exists()


def test_an_untouched_workspace_is_used_again(home: Path, project: Path) -> None:
    """Jobs of an unchanged project take turns in one workspace; a change makes another."""
    text = (
        "import kinetic, os, sys\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def where():\n"
        "    return os.stat('script.py').st_ino\n"
        "a, b = where(), where()\n"
        "open('extra.txt', 'w').close()\n"
        "print(a == b, where() == a)\n"
    )
    assert agents.output(agents.script(project, text, home)) == "True False\n"


def test_unchanged_source_is_stored_once(own_home: Path, project: Path) -> None:
    """The second submit of a project stores no blob; a changed file stores one more."""
    files(project, data_txt="1")
    text = "import kinetic\nkinetic.run(accelerator='cpu')(lambda: None)()\n"
    blobs = own_home / "store" / "blobs" / "sha256"
    (project / "job.py").write_text(text)

    def submit() -> None:
        subprocess.run(
            [sys.executable, "job.py"],
            cwd=project,
            env={**agents.base_environment(), **agents.environment(own_home)},
            check=True,
        )

    submit()
    first = set(os.listdir(blobs))
    submit()
    assert set(os.listdir(blobs)) == first
    (project / "data.txt").write_text("2")
    submit()
    assert len(set(os.listdir(blobs)) - first) == 1


def test_a_traceback_names_the_users_own_files(home: Path, project: Path) -> None:
    """A failure inside an imported module points at the project, not at the job's copy of it."""
    files(project, helper_py="def fail():\n    raise ValueError('deep')\n")
    text = (
        "import kinetic\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def f():\n"
        "    import helper\n"
        "    helper.fail()\n"
        "try:\n"
        "    f.run_async().result()\n"
        "except ValueError as error:\n"
        "    print(error.__notes__[0])\n"
    )
    said = agents.output(agents.script(project, text, home))
    assert f'File "{project}/helper.py", line 2, in fail' in said
    assert "workspaces" not in said


def test_a_result_whose_module_is_not_here_is_explained_and_kept(home: Path, project: Path) -> None:
    """Collecting where the project cannot be imported says so, and leaves the result stored."""
    files(project, shapes_py="class Box:\n    def __repr__(self):\n        return 'Box()'\n")
    text = (
        "import kinetic\n"
        "@kinetic.run(accelerator='cpu')\n"
        "def f():\n    import shapes\n    return shapes.Box()\n"
        "job = f.run_async()\n"
        "print(job.job_id)\n"
    )
    job_id = agents.output(agents.script(project, text, home)).strip()
    collect = f"import kinetic\nprint(kinetic.attach({job_id!r}).result())\n"
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    process = agents.script(elsewhere, collect, home)
    _, err = process.communicate(timeout=agents.PATIENCE)
    assert "cannot be read here: No module named 'shapes'" in err
    assert agents.output(agents.script(project, collect, home, name="collect.py")) == "Box()\n"


# The source tree.


def package(root: Path, name: str) -> Path:
    """A module in a package below `root`; returns its path."""
    directory = root / name
    directory.mkdir(parents=True)
    (directory / "__init__.py").touch()
    module = directory / "mod.py"
    module.write_text("def f(): ...")
    return module


def function_in(path: Path) -> object:
    """A function whose code says it comes from `path`."""
    scope: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["f"]


@pytest.mark.parametrize(
    "marker", ["pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", ".git"]
)
def test_the_package_root_is_the_nearest_marked_directory(tmp_path: Path, marker: str) -> None:
    """Out of every package, then up to the first marker."""
    module = package(tmp_path / "project" / "lib", "pkg")
    (tmp_path / "project" / marker).touch()
    root = source.package_root(function_in(module))  # type: ignore[arg-type]
    assert root == (tmp_path / "project").resolve()


def test_the_package_root_without_a_marker_is_the_packages_parent(tmp_path: Path) -> None:
    """No marker: the directory that holds the outermost package."""
    module = package(tmp_path / "plain", "pkg")
    assert source.package_root(function_in(module)) == (tmp_path / "plain").resolve()  # type: ignore[arg-type]


def test_home_is_never_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script right in $HOME travels alone, and that is said."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KINETIC_LOG_LEVEL", "INFO")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "mod.py").write_text("def f(): ...")
    assert source.package_root(function_in(tmp_path / "mod.py")) is None  # type: ignore[arg-type]
    assert "is never shipped whole" in capsys.readouterr().err


def test_a_named_package_root_must_hold_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`KINETIC_PACKAGE_ROOT` overrides, and is checked."""
    module = package(tmp_path / "a", "pkg")
    (tmp_path / "b").mkdir()
    monkeypatch.setenv("KINETIC_PACKAGE_ROOT", str(tmp_path))
    assert source.package_root(function_in(module)) == tmp_path.resolve()  # type: ignore[arg-type]
    for wrong, told in [("b", "does not contain"), ("missing", "not a directory")]:
        monkeypatch.setenv("KINETIC_PACKAGE_ROOT", str(tmp_path / wrong))
        with pytest.raises(OptionError, match=told):
            source.package_root(function_in(module))  # type: ignore[arg-type]


def test_the_tree_leaves_out_what_never_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caches, virtual environments by any name and our own home stay; links and modes are kept."""
    for name in (".git", "__pycache__", ".venv", "node_modules", "pkg", "home", "my-env"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "my-env" / "pyvenv.cfg").touch()
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")

    def names() -> list[str]:
        return sorted(entry.name for entry in source.tree(tmp_path, exclude=tmp_path / "home"))

    assert names() == ["broken", "loop", "pkg", "pkg/file"]
    monkeypatch.setenv("KINETIC_NO_DEFAULT_EXCLUDES", "1")
    assert ".venv/file" in names()
    assert ".git/file" not in names()


def test_odd_files_arrive_as_they_are(home: Path, project: Path) -> None:
    """Links, modes, empty directories, old times and unicode names survive the journey."""
    (project / "empty").mkdir()
    (project / "run.sh").write_text("x")
    (project / "run.sh").chmod(0o755)
    (project / "link").symlink_to("run.sh")
    (project / "dangling").symlink_to("/nowhere")
    (project / "ünï code").write_text("y")
    os.utime(project / "ünï code", (0, -86400.5))
    text = (
        "import json, kinetic, os\n"
        "def look():\n"
        "    found = {}\n"
        "    for name in sorted(os.listdir('.')):\n"
        "        s = os.lstat(name)\n"
        "        link = os.readlink(name) if os.path.islink(name) else None\n"
        "        found[name] = [s.st_mode, link, s.st_mtime_ns]\n"
        "    return found\n"
        "there = kinetic.run(accelerator='cpu')(look)()\n"
        "here = look()\n"
        "assert there == here, (there, here)\n"
        "assert 'dangling' in here\n"
    )
    agents.output(agents.script(project, text, home))
    assert stat.S_IMODE((project / "run.sh").stat().st_mode) == 0o755


# The environment.


def test_a_wildcard_leaves_this_machine_behind() -> None:
    """`*` takes what describes the work, never what describes the machine."""
    environ = {"PATH": "p", "HOME": "h", "CONDA_PREFIX": "c", "KERAS_BACKEND": "torch", "LR": "1"}
    assert environment.captured(["*"], environ) == {"LR": "1"}
    assert environment.captured(["PATH", "KERAS_*", "KERAS_BACKEND"], environ) == {
        "PATH": "p",
        "KERAS_BACKEND": "torch",
    }


def test_a_missing_name_is_a_warning_with_near_matches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A typo is told with what is set, values left out."""
    assert environment.captured(["WANDB_API_KEi"], {"WANDB_API_KEY": "s3cret"}) == {}
    said = capsys.readouterr().err
    assert "`WANDB_API_KEi`, which is not set; set here: `WANDB_API_KEY`" in said
    assert "s3cret" not in said


# Job ids.


@pytest.mark.parametrize(
    ("function", "part"),
    [
        ("train_model", "train-model"),
        ("<lambda>", "lambda"),
        ("Straße_Ünïcode", "strae-unicode"),
        ("训练", "job"),
        ("x" * 200, "x" * 24),
        ("_private__", "private"),
    ],
)
def test_job_ids_are_valid_names(function: str, part: str) -> None:
    """Whatever the function is called, the id is a Kubernetes name that says what it is."""
    job_id = new_job_id("v5e1", function)
    pattern = rf"v5e1-{part}-\d{{8}}-\d{{6}}-[0-9a-f]{{7}}"
    assert __import__("re").fullmatch(pattern, job_id)
    assert len(job_id) <= 63
