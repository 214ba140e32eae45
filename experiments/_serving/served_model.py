"""What a server computes with a model: predictions, sentence vectors and explanations of the texts of many requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from graphattn import __version__
from graphattn.builders import Example
from graphattn.exceptions import ConfigError, DataError
from graphattn.models._estimators.inputs import as_list, as_text
from graphattn.models._results.class_probabilities import name_class

if TYPE_CHECKING:
    from graphattn.models import Estimator
    from graphattn.models.pretrained import SentenceEncoder

Row = TypeVar("Row")
_JSON_TYPES = {"category": ["string", "number", "null"], "number": ["number", "null"]}


@dataclass(frozen=True)
class Predict:
    """Computes the predictions of requests; those with the same options can be computed together."""

    model: ServedModel
    options: Mapping[str, Any]

    def __call__(self, requests: Sequence[Sequence[Any]]) -> list[list[dict[str, Any]]]:
        return self.model.predict(requests, **self.options)


@dataclass(frozen=True)
class Explanation:
    """A text to explain, or a pair: which branch decides, its strongest edges, and what each word adds."""

    item: Any
    edges: int
    attributions: bool


class ServedModel:
    """A model and what it can compute; ``missing`` says for other paths why not.

    ``is_pair`` says whether its inputs are pairs. Methods take the inputs of several requests, and return the results
    of each.
    """

    def __init__(self, name: str, model: Estimator | SentenceEncoder):
        self.name = name
        self._model: Any = model
        self._predicts = hasattr(model, "predict_rows")  # a pretrained model without a task does not
        self.is_pair = model.task.texts_per_input == 2
        self.missing: dict[str, str] = {}
        self.width = 0  # numbers of an input's vectors
        text = self._make_trial()
        trials: dict[str, Callable[[], Any]] = {  # they also load and compile what the first request would wait for
            "/predict": lambda: self.predict([[text]]),
            "/encode": lambda: self._measure_width(text),
            "/explain": lambda: self.explain([Explanation(text, 1, False)]),
        }
        for path, compute in trials.items():
            if path == "/predict" and not self._predicts:
                self.missing[path] = "a pretrained model without a task has no predictions"
                continue
            try:
                compute()
            except ConfigError as error:
                self.missing[path] = str(error)

    @property
    def columns(self) -> dict[str, dict[str, Any]]:
        """The columns of the training corpus that an object of a request has -> JSON schemas of their values."""
        known = self._model.task_.known_columns
        texts = (*known.text, *known.second) if self.is_pair else known.text
        cells = {column.column: {"type": _JSON_TYPES[column.kind]} for column in known.cells}
        if cells and not texts:
            texts = ("text", "second") if self.is_pair else ("text",)
        return {**{name: {"type": "string"} for name in texts}, **cells}

    @property
    def has_cells(self) -> bool:
        """Whether a request must have objects, since the model reads columns beside the text."""
        return bool(self._model.task_.known_columns.cells)

    def _make_trial(self) -> Any:
        """An input."""
        if self.has_cells:
            cells = self._model.text_inputs_.text_columns.list_typical_cells()
            return Example("a", "a" if self.is_pair else None, cells=cells)
        return ("a", "a") if self.is_pair else "a"

    @property
    def example(self) -> Any:
        """An input in a request."""
        if not self.has_cells:
            return ("a text", "another") if self.is_pair else "a text"
        cells = self._model.text_inputs_.text_columns.list_typical_cells()
        of_columns = {column.column: cells[column.name] for column in self._model.task_.known_columns.cells}
        return {name: of_columns.get(name, "a text") for name in self.columns}

    @property
    def is_per_word(self) -> bool:
        """Whether each word has a prediction."""
        return self._predicts and bool(self._model.task.per_word)

    @property
    def num_classes(self) -> int:
        """The number of probabilities of an input, of a tagger those of one word."""
        return len(self._model.task_.labels.classes) if self._predicts else 0

    def _measure_width(self, text: Any) -> None:
        ((vector,),) = self.encode([[text]])
        self.width = vector.size

    def read(self, items: Sequence[Any]) -> list[Any]:
        """Inputs, with objects read by the names of the training corpus's columns."""
        if not any(isinstance(item, dict) for item in items):
            return list(items)
        try:
            return [self._as_text(item) for item in as_list(items, self._model.task_)]
        except DataError as error:
            error.hint = None  # which is for Python
            raise

    def _as_text(self, item: Any) -> Any:
        if not isinstance(item, Example) or item.cells is not None:
            return item
        return (item.text, item.second) if self.is_pair else item.text

    def describe(self) -> dict[str, Any]:
        """What the model is, for ``/health``."""
        facts: dict[str, Any] = {"status": "ok", "model": self.name, "graphattn": __version__}
        if self._predicts:
            facts |= {"task": self._model.task.name, "encoder": self._model.encoder_.name}
            names = self._model.task_.labels.classes
            facts |= {"labels": [name_class(name) for name in names]}
        return facts

    def count_tokens(self, item: Any) -> int:
        """The number of tokens of an input."""
        return sum(map(self._model.count_tokens, self._list_texts(item)))

    def count_bytes(self, item: Any) -> int:
        """The size of an input's texts, which have at most about as many tokens."""
        return sum(len(text.encode(errors="replace")) for text in self._list_texts(item))

    def _list_texts(self, item: Any) -> list[str]:
        if isinstance(item, Example):
            item = (item.text, item.second) if self.is_pair else item.text
        return [as_text(text) for text in (item if self.is_pair else (item,))]

    def predict(self, requests: Sequence[Sequence[Any]], **options: Any) -> list[list[dict[str, Any]]]:
        """The rows that ``graphattn predict`` prints, with the options of ``predict_rows``."""
        return _of_each_request(partial(self._model.predict_rows, **options), requests)

    def has_option(self, name: str) -> bool:
        """Whether predictions have an option of ``predict_rows``."""
        return name in self._model.task.prediction_options

    def encode(self, requests: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The sentence vector of each text, as an array; two of a pair, unless the model reads it as one sequence."""

        def encode(items: list[Any]) -> list[Any]:
            vectors = self._model.encode(items)
            return list(vectors if len(vectors) == len(items) else vectors.reshape(len(items), 2, -1))

        return _of_each_request(encode, requests)

    def explain(self, requests: Sequence[Explanation]) -> list[dict[str, Any]]:
        """The strongest edges of a text, as ``graphattn inspect`` prints them, and the attributions of its words."""
        return [self._explain_one(request) for request in requests]

    def _explain_one(self, request: Explanation) -> dict[str, Any]:
        from graphattn.models.inspection.attributions import word_attributions

        attention = self._model.attention(request.item)
        page = attention.to_page(arrays=True)
        answer = {name: page[name] for name in ("prediction", "branches", "tokens")}
        answer["edges"] = _list_rows(attention.top(request.edges))
        if request.attributions:
            words = word_attributions(self._model, request.item)
            quantities = {"explains": words.explains, "value": words.value, "baseline": words.baseline}
            answer["attributions"] = {**quantities, "words": _list_rows(words.table)}
        return answer


def _of_each_request(compute: Callable[[list[Any]], list[Row]], requests: Sequence[Sequence[Any]]) -> list[list[Row]]:
    """Compute the inputs of all requests together."""
    rows = iter(compute([item for items in requests for item in items]))
    return [[next(rows) for _ in items] for items in requests]


def _list_rows(table: Any) -> list[dict[str, Any]]:
    return json.loads(table.to_json(orient="records", double_precision=6))
