"""Former names of documented modules, which import the module under its new name for one release."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "graphattn.experiments.data_sets": "graphattn.experiments.papers.data_sets",
    "graphattn.experiments.grammar": "graphattn.experiments.demo.grammar",
    "graphattn.experiments.parallel_sets": "graphattn.experiments.papers.data_sets",
    "graphattn.experiments.pictures": "graphattn.experiments.drawing",
    "graphattn.experiments.result_rows": "graphattn.experiments.papers.rows",
    "graphattn.experiments.results": "graphattn.experiments.papers.runs",
    "graphattn.experiments.run_settings": "graphattn.experiments.papers.settings",
    "graphattn.models.attributions": "graphattn.models.inspection.attributions",
    "graphattn.networkx_export": "graphattn.networkx_graphs",
}
"""Former name -> new name."""


class MovedModules(MetaPathFinder, Loader):
    """Import a module under its former name, with a ``DeprecationWarning``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a moved module; None for others."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with the names of the new module."""
        new_name = MOVED[module.__name__]
        warnings.warn(f"{module.__name__} is now {new_name}", DeprecationWarning, stacklevel=2)
        names = vars(import_module(new_name)).items()
        vars(module).update({name: value for name, value in names if not name.startswith("__")})


def install() -> None:
    """Let ``import`` find moved modules."""
    sys.meta_path.append(MovedModules())
