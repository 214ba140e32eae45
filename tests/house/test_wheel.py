"""The built wheel in a clean environment, beside a project with its own models/ and builders/."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

IMPORT_EVERYTHING = """
import builders, importlib, importlib.util, json, models, pkgutil, graphattn
from graphattn.exceptions import MissingPackageError

files = {module.__name__: module.__file__ for module in [graphattn, models, builders]}
for _, name, _ in pkgutil.walk_packages(graphattn.__path__, "graphattn."):
    files[name] = importlib.util.find_spec(name).origin
    try:
        importlib.import_module(name)
    except (ModuleNotFoundError, MissingPackageError) as error:
        missing = (error.__cause__ or error).name.partition(".")[0]
        if missing not in ("anywidget", "orjson", "spacy", "transformers", "triton"):  # of extras
            raise
print(json.dumps({"files": files, "theirs": [models.WHOSE, builders.WHOSE]}))
"""


@pytest.fixture(scope="module")
def wheel():
    path = os.environ.get("GRAPHATTN_WHEEL")
    if not path:
        pytest.skip("GRAPHATTN_WHEEL is not set; `make test` builds a wheel")
    return Path(path).resolve(strict=True)


@pytest.fixture(scope="module")
def clean_python(wheel, tmp_path_factory):
    """The interpreter of a new environment with the wheel and the dependencies of this one."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = (home / "lib").glob("python*/site-packages")
    theirs = {str(Path(path).resolve()) for path in sys.path if path.endswith("site-packages")}
    (packages / "dependencies.pth").write_text("\n".join(sorted(theirs)) + "\n", encoding="utf-8")
    return python


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A user's project with packages named like our folders."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("models", "builders"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("WHOSE = 'the user'\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def answer(clean_python, project):
    # Python puts the folder of a script first on its path.
    script = project / "import_everything.py"
    script.write_text(IMPORT_EVERYTHING, encoding="utf-8")
    done = subprocess.run(
        [clean_python, script], cwd=project, capture_output=True, text=True, check=False, env=_environment()
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _environment():
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONSAFEPATH"}}


def test_every_module_is_in_the_wheel(answer, clean_python, modules):
    ours = {name: file for name, file in answer["files"].items() if name.split(".")[0] == "graphattn"}
    assert set(ours) == set(modules)
    assert all(Path(file).is_relative_to(clean_python.parents[1]) for file in ours.values())


def test_packages_of_the_user_are_not_shadowed(answer, project):
    assert answer["theirs"] == ["the user", "the user"]
    assert {Path(answer["files"][name]).parent for name in ("models", "builders")} == {
        project / "models",
        project / "builders",
    }


def test_the_wheel_installs_nothing_else(clean_python):
    (packages,) = (clean_python.parents[1] / "lib").glob("python*/site-packages")
    installed = {path.name for path in packages.iterdir()} - {"dependencies.pth"}
    assert "graphattn" in installed
    assert {name for name in installed if not name.endswith(".dist-info")} == {"graphattn"}
    assert (packages / "graphattn" / "py.typed").is_file()


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(wheel, root, tmp_path):
    pytest.importorskip("build", reason="build is not installed")
    # the wheel was built in an environment of its own, which shows that pyproject.toml names what a build needs
    build = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", tmp_path, root]
    subprocess.run(build, check=True, capture_output=True)
    (from_sdist,) = tmp_path.glob("*.whl")
    assert ZipFile(from_sdist).namelist() == ZipFile(wheel).namelist()


def test_the_command_runs(clean_python, project):
    command = [clean_python.parent / "graphattn", "--help"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, env=_environment())
    assert done.returncode == 0, done.stderr
    assert "graphattn" in done.stdout


def test_the_tests_run_against_an_installed_package(wheel, root):
    import graphattn.builders

    assert not Path(graphattn.builders.__file__).is_relative_to(root / "builders")
