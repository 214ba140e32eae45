"""A folder imports only from lower floors, imports have no cycles, and one module imports DGL."""

import networkx as nx

FLOORS = {"graphattn": 0, "graphattn.builders": 1, "graphattn.models": 2, "graphattn.experiments": 3}
FLOORS["graphattn.__main__"] = 3  # python -m graphattn
FLOORS["graphattn.transformers"] = 2  # models of transformers, beside their readers
# DGL is no longer maintained: one module imports it, and one backend calls it.
DGL_IMPORTER = "graphattn._dgl_graphs"
DGL_CALLERS = {"graphattn", "graphattn._backends.dgl", "graphattn.experiments._cli.build"}
ROOT_PACKAGE = "graphattn"  # names upper floors in strings for __getattr__ and in imports for type checkers


def floor_of(name):
    """The floor of a module of ours; None for other packages."""
    parts = name.split(".")
    if parts[0] != "graphattn":
        return None
    return FLOORS.get(".".join(parts[:2]), 0)


def find_upward_imports(modules):
    return [
        f"{module.path.name}:{each.line} {module.name} imports {each.target}"
        for module in modules.values()
        for each in module.imports
        if (floor := floor_of(each.target)) is not None and floor > floor_of(module.name)
        if not (module.name == ROOT_PACKAGE and each.type_checking)
    ]


def make_import_graph(modules, *, annotations=False):
    """The graph of imports at run time, or also of those for type checkers."""
    graph = nx.DiGraph()
    for module in modules.values():
        for each in module.imports:
            target = each.target if each.target in modules else each.target.rpartition(".")[0]
            counts = not each.type_checking or (annotations and module.name != ROOT_PACKAGE)
            if counts and target in modules and target != module.name:
                graph.add_edge(module.name, target)
    return graph


def find_circular_annotations(modules):
    """Imports for type checkers that close a circle."""
    graph = make_import_graph(modules, annotations=True)
    at_run_time = make_import_graph(modules)
    return [
        (name, target)
        for circle in nx.strongly_connected_components(graph)
        for name, target in graph.subgraph(circle).edges
        if not at_run_time.has_edge(name, target)
    ]


def test_imports_go_down_the_floors(modules):
    assert find_upward_imports(modules) == []


def test_imports_have_no_cycles(modules):
    assert list(nx.simple_cycles(make_import_graph(modules))) == []


def test_annotations_have_no_cycles(modules):
    circles = [
        f"{name} names {target} in annotations, which imports it" for name, target in find_circular_annotations(modules)
    ]
    assert circles == []


def test_circular_annotations_are_detected(make_module):
    lower = make_module(
        "graphattn.a", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from graphattn.b import B\n"
    )
    upper = make_module("graphattn.b", "from graphattn.a import a\n")
    modules = {module.name: module for module in (lower, upper)}
    assert find_circular_annotations(modules) == [("graphattn.a", "graphattn.b")]


def test_violations_are_detected(make_module):
    up = make_module("graphattn._edges", "def f():\n    from graphattn.models.trainer import Trainer\n")
    relative = make_module("graphattn.builders._batching", "from ..models import trainer\n")
    lazy = make_module("graphattn._scales", "import importlib\nimportlib.import_module('graphattn.builders')\n")
    down = make_module("graphattn.models.trainer", "from graphattn.builders import batching\nimport graphattn._edges\n")
    modules = {module.name: module for module in (up, relative, lazy, down)}
    assert find_upward_imports(modules) == [
        "_edges.py:2 graphattn._edges imports graphattn.models.trainer.Trainer",
        "_batching.py:1 graphattn.builders._batching imports graphattn.models.trainer",
        "_scales.py:2 graphattn._scales imports graphattn.builders",
    ]
    assert nx.find_cycle(make_import_graph(modules), "graphattn._edges")


def test_the_root_package_imports_upper_floors_for_type_checkers_only(make_module):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from graphattn.models import x\nelse:\n    pass\n"
    assert find_upward_imports({"graphattn": make_module("graphattn", text)}) == []
    assert find_upward_imports({"graphattn": make_module("graphattn", "from graphattn.models import x\n")})


def test_one_module_imports_dgl(modules):
    importers = {m.name for m in modules.values() for i in m.imports if i.target.split(".")[0] == "dgl"}
    at_run_time = {
        m.name for m in modules.values() for i in m.imports if i.target.split(".")[0] == "dgl" and not i.type_checking
    }
    assert at_run_time == {DGL_IMPORTER}
    for name in importers - {DGL_IMPORTER}:
        targets = {i.target for i in modules[name].imports if i.target.split(".")[0] == "dgl"}
        assert targets == {"dgl.DGLGraph"}, f"{name} imports more than the type of DGL's graph"


def test_one_backend_calls_dgl(modules):
    callers = {m.name for m in modules.values() if any(i.target == f"{DGL_IMPORTER}.import_dgl" for i in m.imports)}
    assert callers == DGL_CALLERS
