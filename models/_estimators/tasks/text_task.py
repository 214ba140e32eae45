"""Tasks of whole texts, which read further columns of a table beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from graphattn.builders.readers._cells import parse_cell_columns, rename_cell_columns
from graphattn.models._estimators.tasks.files import CorpusFiles
from graphattn.models._estimators.tasks.task import Task


class TextTask(Task):
    """A task whose items are whole texts or pairs, which may have further columns beside them.

    ``feature_columns`` are these columns with their kinds, such as ``amount:number``.
    """

    def __init__(self, *, feature_columns: Sequence[str] = (), **arguments: Any):
        super().__init__(**arguments)
        self.feature_columns = feature_columns
        self.cell_columns = parse_cell_columns(feature_columns)

    @override
    def read(self, corpus: CorpusFiles) -> tuple[Any, Any, Mapping[str, Any]]:
        given = corpus.options.get("feature_columns", ())
        columns = rename_cell_columns(given, self.feature_columns)
        return super().read(
            replace(corpus, options={**corpus.options, "feature_columns": columns}) if columns else corpus
        )

    @override
    def describe_reading(self, training: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().describe_reading(training), "feature_columns": self.feature_columns}

    @override
    def to_config(self) -> dict[str, Any]:
        columns = {"feature_columns": list(self.feature_columns)} if self.feature_columns else {}
        return {**super().to_config(), **columns}
