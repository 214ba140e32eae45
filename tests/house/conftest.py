"""The modules of the package for the house tests: name, path, syntax tree and imports."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOOR_FOLDERS = ("graphattn", "builders", "models", "experiments")


@dataclass(frozen=True)
class Import:
    """One imported name, and whether it is for type checkers only."""

    target: str
    line: int
    type_checking: bool


@dataclass(frozen=True)
class Module:
    """A source file of the package under its dotted name."""

    name: str
    path: Path

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def imports(self) -> list[Import]:
        """Every import of the file, inside functions too, as absolute dotted names (`from a import b` gives `a.b`)."""
        return list(self._imports(self.tree, type_checking=False))

    def _imports(self, node: ast.AST, type_checking: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            for target in self._targets(child):
                yield Import(target, child.lineno, type_checking)
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for statement in child.body:
                    yield from self._imports(ast.Module([statement], []), type_checking=True)
                yield from self._imports(ast.Module(child.orelse, []), type_checking)
            else:
                yield from self._imports(child, type_checking)

    def _targets(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            origin = self._origin(node)
            return [f"{origin}.{alias.name}" for alias in node.names]
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("import_module", "import_optional", "__import__")
        ):
            return [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return []

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        base = package[: len(package) - (node.level - 1)]
        return ".".join([*base, *([node.module] if node.module else [])])


def _name_module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "graphattn" else ("graphattn", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the clone."""
    return ROOT


@pytest.fixture(scope="session")
def modules() -> dict[str, Module]:
    """The modules of the package by dotted name, read from the clone."""
    paths = sorted(path for folder in FLOOR_FOLDERS for path in (ROOT / folder).rglob("*.py"))
    modules = {_name_module(path): Module(_name_module(path), path) for path in paths}
    assert "graphattn" in modules, f"no sources under {ROOT}"
    return modules


@pytest.fixture
def make_module(tmp_path: Path) -> Callable[[str, str], Module]:
    """Write a module with this dotted name and text, to test a rule."""

    def make(name: str, text: str) -> Module:
        path = tmp_path / f"{name.rpartition('.')[2]}.py"
        path.write_text(text, encoding="utf-8")
        return Module(name, path)

    return make
