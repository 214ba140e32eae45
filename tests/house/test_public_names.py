"""Public names are exported and documented; everything else is in a module or folder with an underscore."""

import importlib
import re

import pytest

# Pages about what is inside the package.
INTERNAL_PAGES = {"kernels.md"}


@pytest.fixture(scope="module")
def documented(root):
    """The names in the API reference."""
    return set(re.findall(r"^::: ([\w.]+)$", (root / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture(scope="module")
def public_modules(modules):
    return [name for name in modules if "._" not in name]


def test_a_public_module_is_in_the_reference(modules, public_modules, documented):
    unknown = [
        name
        for name in public_modules
        if not modules[name].is_package and name not in documented | {"graphattn.models.inspection.notebook"}
        if not any(each.startswith(f"{name}.") for each in documented)
    ]
    assert unknown == [], "begin the name of the module with an underscore, or add its names to docs/api.md"


def test_an_exported_name_is_in_the_reference(modules, public_modules, documented):
    names = {name.rpartition(".")[2] for name in documented}
    unknown = [
        f"{package}.{name}"
        for package in public_modules
        if modules[package].is_package
        for name in getattr(importlib.import_module(package), "__all__", ())
        if name not in names and name != "GraphAttnError"  # in the reference of graphattn.exceptions
    ]
    assert unknown == []


def test_the_reference_has_public_names_only(documented):
    assert [name for name in documented if "._" in name] == []


def test_docs_import_public_names_only(root):
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    private = [
        f"{page.name}: {name}"
        for page in pages
        if page.name not in INTERNAL_PAGES
        for name in re.findall(r"graphattn(?:\.\w+)*\._\w+", page.read_text(encoding="utf-8"))
    ]
    assert private == []
