"""Imports go down the floors only and never in a circle, and few modules name DGL."""

import networkx as nx

FLOORS = {"graphattn": 0, "graphattn.builders": 1, "graphattn.models": 2, "graphattn.experiments": 3}
FLOORS["graphattn.__main__"] = 3  # python -m graphattn
# DGL is dormant upstream: one module imports it, the backend calls it, all others go through them.
DGL_IMPORTER = "graphattn.dgl_graphs"
DGL_CALLERS = {"graphattn.backends.dgl"}
SHOP_WINDOW = "graphattn"  # its upper floors are strings for __getattr__, and imports for the type checker alone


def floor_of(name):
    """The floor of a dotted name of ours, None for anybody else's."""
    parts = name.split(".")
    if parts[0] != "graphattn":
        return None
    return FLOORS.get(".".join(parts[:2]), 0)


def upward_imports(modules):
    return [
        f"{module.path.name}:{found.line} {module.name} imports {found.target}"
        for module in modules.values()
        for found in module.imports
        if (there := floor_of(found.target)) is not None and there > floor_of(module.name)
        if not (module.name == SHOP_WINDOW and found.type_checking)
    ]


def import_graph(modules):
    """Which module names which; an import that only the type checker follows cannot close a circle."""
    graph = nx.DiGraph()
    for module in modules.values():
        for found in module.imports:
            target = found.target if found.target in modules else found.target.rpartition(".")[0]
            if target in modules and not found.type_checking:
                graph.add_edge(module.name, target)
    return graph


def test_imports_go_down_the_floors(modules):
    assert upward_imports(modules) == []


def test_imports_never_run_in_a_circle(modules):
    assert list(nx.simple_cycles(import_graph(modules))) == []


def test_the_rules_see_a_violation(make_module):
    up = make_module("graphattn.edges", "def f():\n    from graphattn.models.trainer import Trainer\n")
    relative = make_module("graphattn.builders.batching", "from ..models import trainer\n")
    lazy = make_module("graphattn.scales", "import importlib\nimportlib.import_module('graphattn.builders')\n")
    down = make_module("graphattn.models.trainer", "from graphattn.builders import batching\nimport graphattn.edges\n")
    found = {module.name: module for module in (up, relative, lazy, down)}
    assert upward_imports(found) == [
        "edges.py:2 graphattn.edges imports graphattn.models.trainer.Trainer",
        "batching.py:1 graphattn.builders.batching imports graphattn.models.trainer",
        "scales.py:2 graphattn.scales imports graphattn.builders",
    ]
    assert nx.find_cycle(import_graph(found), "graphattn.edges")


def test_the_shop_window_names_upper_floors_for_the_type_checker_only(make_module):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from graphattn.models import x\nelse:\n    pass\n"
    assert upward_imports({"graphattn": make_module("graphattn", text)}) == []
    assert upward_imports({"graphattn": make_module("graphattn", "from graphattn.models import x\n")})


def test_one_module_imports_dgl(modules):
    importers = {m.name for m in modules.values() for i in m.imports if i.target.split(".")[0] == "dgl"}
    at_run_time = {
        m.name for m in modules.values() for i in m.imports if i.target.split(".")[0] == "dgl" and not i.type_checking
    }
    assert at_run_time == {DGL_IMPORTER}
    for name in importers - {DGL_IMPORTER}:
        named = {i.target for i in modules[name].imports if i.target.split(".")[0] == "dgl"}
        assert named == {"dgl.DGLGraph"}, f"{name} needs more of DGL than the graph's type"


def test_few_modules_call_dgl(modules):
    callers = {m.name for m in modules.values() if any(i.target == f"{DGL_IMPORTER}.import_dgl" for i in m.imports)}
    assert callers == DGL_CALLERS
