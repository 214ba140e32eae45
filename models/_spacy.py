"""A component of spaCy pipelines that predicts with a trained model; spaCy finds it by its entry point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from spacy import util
from spacy.language import Language
from spacy.parts_of_speech import IDS
from spacy.tokens import Doc, Span

from graphattn.builders.tag_schemes import extract_spans
from graphattn.exceptions import ConfigError
from graphattn.models._class_probabilities import name_class
from graphattn.models._estimators.loading import load
from graphattn.models._estimators.sequence_tagger import SequenceTagger
from graphattn.models._estimators.text_classifier import TextClassifier

_KEY = "graphattn"
_COMPONENTS: WeakValueDictionary[str, Component] = WeakValueDictionary()
"""Components by their keys, which they write into the ``user_data`` of texts."""


class Component:
    """Predicts ``doc.cats`` (classifiers), ``doc.ents`` (taggers of entities), or the tags of tokens.

    ``model`` is the model directory, which is read when the first text comes.
    """

    def __init__(self, name: str, model: str):
        self.name, self.model = name, model
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
            self._estimator = _load(self.model)
        return self._estimator

    def __call__(self, doc: Doc) -> Doc:
        """Annotate a text."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int) -> Iterator[Doc]:
        """Annotate texts, a batch at a time."""
        for docs in util.minibatch(stream, size=batch_size):
            self._annotate(docs)
            yield from docs

    def attention(self, doc: Doc) -> Any:
        """The attention weights of a text."""
        return self.estimator.attention(self._read(doc))

    def _read(self, doc: Doc) -> Any:
        if isinstance(self.estimator, TextClassifier):
            return doc.text
        return [token.text for token in doc if not token.is_space]

    def _annotate(self, docs: list[Doc]) -> None:
        for doc in docs:
            doc.user_data[_KEY] = self._key
        estimator, inputs = self.estimator, [self._read(doc) for doc in docs]
        if isinstance(estimator, TextClassifier):
            names = [name_class(name) for name in estimator.classes_.tolist()]
            for doc, row in zip(docs, estimator.predict_proba(inputs), strict=True):
                doc.cats = {**doc.cats, **dict(zip(names, map(float, row), strict=True))}
            return
        full = [(doc, words) for doc, words in zip(docs, inputs, strict=True) if words]
        tags = estimator.predict([words for _, words in full])
        set_tags = _set_tags if estimator.scheme_ == "none" else _set_entities
        for (doc, _), of_doc in zip(full, tags, strict=True):
            set_tags(doc, of_doc, estimator.scheme_)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model, so that the pipeline's directory needs no other."""
        self.estimator.save(path)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Component:
        """Read the model that :meth:`to_disk` wrote, instead of that of the configuration."""
        self._estimator = _load(path)
        return self


def _load(path: str | Path) -> TextClassifier | SequenceTagger:
    estimator = load(path)
    if not isinstance(estimator, TextClassifier | SequenceTagger):
        raise ConfigError(f"{path} {estimator.task.description}; spaCy's component needs a classifier or a tagger")
    return estimator


def _set_tags(doc: Doc, tags: list[str], scheme: str) -> None:
    """Set ``token.pos_`` if all tags are of Universal Dependencies, else ``token.tag_``."""
    attribute = "pos_" if all(tag in IDS for tag in tags) else "tag_"
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


def make_component(nlp: Language, name: str, model: str) -> Component:
    """The component ``graphattn``; ``model`` is a model directory."""
    return Component(name, model)


Language.factory("graphattn", func=make_component)
Doc.set_extension("attention", getter=_get_attention, force=True)
