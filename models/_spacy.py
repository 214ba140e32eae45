"""A component of spaCy pipelines that predicts with a trained model; spaCy finds it by its entry point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from spacy import util
from spacy.language import Language
from spacy.parts_of_speech import IDS
from spacy.pipeline import Pipe
from spacy.scorer import Scorer, get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example
from typing_extensions import override

from graphattn.builders.tag_schemes import extract_spans
from graphattn.exceptions import ConfigError, GraphAttnError
from graphattn.models._estimators.loading import load
from graphattn.models._estimators.sequence_tagger import SequenceTagger
from graphattn.models._estimators.text_classifier import TextClassifier
from graphattn.models._results.class_probabilities import name_class

_KEY = "graphattn"
_COMPONENTS: WeakValueDictionary[str, Component] = WeakValueDictionary()
"""Components by their keys, which they write into the ``user_data`` of texts."""


class Component(Pipe):
    """Predicts ``doc.cats`` (classifiers), ``doc.ents`` (taggers of entities), or the tags of tokens.

    ``model`` is the model directory, which is read when the first text comes. With ``threshold``, ``min_confidence`` or
    ``top_k``, ``doc._.prediction`` is the row that ``predict_rows`` gives for them (classifiers). A text that cannot be
    predicted goes to the error handler, which raises its error unless another was set, and the others of its batch are
    kept.
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        threshold: float | Mapping[str, float] | None = None,
        min_confidence: float | None = None,
        top_k: int | None = None,
    ):
        self.name, self.model, self.threshold = name, model, threshold
        self.row_options: dict[str, Any] = {"min_confidence": min_confidence, "top_k": top_k}
        self._estimator: TextClassifier | SequenceTagger | None = None
        self._key = uuid4().hex
        self._register()

    def _register(self) -> None:
        _COMPONENTS[self._key] = self

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._register()  # in another process

    @property
    def estimator(self) -> TextClassifier | SequenceTagger:
        """The model."""
        if self._estimator is None:
            self._estimator = self._load(self.model)
        return self._estimator

    @property
    def _has_row(self) -> bool:
        return any(value is not None for value in (self.threshold, *self.row_options.values()))

    def _load(self, path: str | Path) -> TextClassifier | SequenceTagger:
        """Read a model, and change its thresholds."""
        estimator = load(path)
        if not isinstance(estimator, TextClassifier | SequenceTagger):
            problem = f"{path} {estimator.task.description}"
            raise ConfigError(f"{problem}; spaCy's component needs a classifier or a tagger")
        if cells := estimator.task_.known_columns.cells:
            names = ", ".join(column.name for column in cells)
            raise ConfigError(f"{path} reads the columns {names} beside the text, and a Doc has the text alone")
        options = {"threshold": self.threshold, **self.row_options}
        if isinstance(estimator, SequenceTagger):
            for name in (name for name, value in options.items() if value is not None):
                raise ConfigError(f"{name} does not apply to {path}, which {estimator.task.description}; leave it out")
        elif self.threshold is not None:
            estimator.set_thresholds(self.threshold)
        return estimator

    @property
    @override
    def labels(self) -> tuple[str, ...]:
        """The classes, the types of entities, or the tags; none while the model's directory is not there."""
        if self._estimator is None and not Path(self.model).exists():  # spaCy asks before it calls from_disk
            return ()
        try:
            estimator = self.estimator
        except GraphAttnError:  # raised for the first text
            return ()
        if isinstance(estimator, SequenceTagger) and estimator.scheme_ != "none":
            spans = (extract_spans([tag], "BIOES", repair=True) for tag in estimator.classes_.tolist())
            return tuple(dict.fromkeys(name for of_tag in spans for name, _, _ in of_tag))
        return tuple(map(name_class, estimator.classes_.tolist()))

    @property
    @override
    def label_data(self) -> tuple[str, ...]:
        return self.labels

    @override
    def __call__(self, doc: Doc) -> Doc:
        """Annotate a text."""
        for _ in self.pipe([doc], batch_size=1):
            pass
        return doc

    @override
    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate texts, a batch at a time; those that the error handler gets are left out."""
        minibatch: Any = util.minibatch
        for docs in minibatch(stream, size=batch_size):
            _ = self.estimator  # an error here is not that of a text
            yield from self._annotate_each(docs)

    def _annotate_each(self, docs: list[Doc]) -> Iterator[Doc]:
        """Annotate texts together, or in halves if there is an error, down to the text that has it."""
        try:
            self._annotate(docs)
        except Exception as error:
            failure = error
        else:
            yield from docs
            return
        if len(docs) == 1:
            self.get_error_handler()(self.name, self, docs, failure)
            return
        middle = len(docs) // 2
        yield from self._annotate_each(docs[:middle])
        yield from self._annotate_each(docs[middle:])

    @override
    def score(self, examples: Iterable[Example], **settings: Any) -> dict[str, Any]:
        """The scores of ``nlp.evaluate``: those of spaCy's own component that sets the same.

        Classes are decided as the model decides, with its thresholds.
        """
        estimator: Any = self.estimator
        if isinstance(estimator, SequenceTagger):
            if estimator.scheme_ != "none":
                return dict(get_ner_prf(examples, **settings))
            return dict(Scorer.score_token_attr(examples, self._attribute.removesuffix("_"), **settings))
        thresholds = dict(zip(self.labels, estimator.thresholds_.values(), strict=False))

        def decide(doc: Doc, attribute: str) -> dict[str, float]:
            return {name: _rescale(share, thresholds.get(name, 0.5)) for name, share in getattr(doc, attribute).items()}

        above = math.nextafter(0.5, 1)
        kind = {"labels": self.labels, "multi_label": estimator.multilabel, "threshold": above, "getter": decide}
        return dict(Scorer.score_cats(examples, "cats", **{**kind, **settings}))

    @property
    def _attribute(self) -> str:
        """What tags are set as: ``pos_`` if all are of Universal Dependencies, else ``tag_``."""
        return "pos_" if all(tag in IDS for tag in self.estimator.classes_.tolist()) else "tag_"

    def attention(self, doc: Doc) -> Any:
        """The attention weights of a text."""
        return self.estimator.attention(self._read(doc))

    def _read(self, doc: Doc) -> Any:
        if isinstance(self.estimator, TextClassifier):
            return doc.text
        return [token.text for token in doc if not token.is_space]

    def _annotate(self, docs: list[Doc]) -> None:
        estimator, inputs = self.estimator, [self._read(doc) for doc in docs]
        if isinstance(estimator, TextClassifier):
            for doc, shares in zip(docs, estimator.predict_proba(inputs), strict=True):
                doc.cats = {**doc.cats, **dict(zip(self.labels, map(float, shares), strict=True))}
            if self._has_row:
                for doc, row in zip(docs, estimator.predict_rows(inputs, **self.row_options), strict=True):
                    doc._.prediction = row
        else:
            of_docs = iter(estimator.predict([words for words in inputs if words]))
            for doc, words in zip(docs, inputs, strict=True):
                tags = next(of_docs) if words else []
                if estimator.scheme_ == "none":
                    _set_tags(doc, tags, self._attribute)
                else:
                    _set_entities(doc, tags, estimator.scheme_)
        for doc in docs:
            doc.user_data[_KEY] = self._key

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model, so that the pipeline's directory needs no other."""
        self.estimator.save(path)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Component:
        """Read the model that :meth:`to_disk` wrote, instead of that of the configuration."""
        self._estimator = self._load(path)
        return self


def _rescale(share: float, threshold: float) -> float:
    """A probability in the same order, where 0.5 is the threshold; 0 and 1 of gold labels stay."""
    if share in (0, 1):
        return share
    return share / threshold / 2 if share <= threshold else 0.5 + (share - threshold) / (1 - threshold) / 2


def _set_tags(doc: Doc, tags: list[str], attribute: str) -> None:
    for token, tag in zip((token for token in doc if not token.is_space), tags, strict=True):
        setattr(token, attribute, tag)


def _set_entities(doc: Doc, tags: list[str], scheme: str) -> None:
    numbers = [token.i for token in doc if not token.is_space]
    spans = extract_spans(tags, scheme, repair=True)
    doc.ents = [Span(doc, numbers[start], numbers[end - 1] + 1, label=name) for name, start, end in spans]


def _get_attention(doc: Doc) -> Any:
    component = _COMPONENTS.get(doc.user_data.get(_KEY, ""))
    if component is None:
        raise ConfigError("no graphattn component of this process has read the text; call nlp(text)")
    return component.attention(doc)


def make_component(
    nlp: Language,
    name: str,
    model: str,
    threshold: float | dict[str, float] | None = None,
    min_confidence: float | None = None,
    top_k: int | None = None,
) -> Component:
    """The component ``graphattn``; ``model`` is a model directory."""
    return Component(name, model, threshold=threshold, min_confidence=min_confidence, top_k=top_k)


_SCORES = ("cats_score", "ents_f", "ents_p", "ents_r", "ents_per_type", "pos_acc", "tag_acc")
Language.factory(
    "graphattn",
    func=make_component,
    assigns=["doc.cats", "doc.ents", "token.ent_iob", "token.ent_type", "token.pos", "token.tag"],  # by the task
    default_score_weights=dict.fromkeys(_SCORES),  # spaCy does not train it, so they choose no epoch
)
Doc.set_extension("attention", getter=_get_attention, force=True)
Doc.set_extension("prediction", default=None, force=True)
