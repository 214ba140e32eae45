"""Tagging: a tag for each word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn._ragged import Ints
from graphattn.builders import Example, Sentence
from graphattn.builders._stored import is_stored
from graphattn.builders._values import is_list
from graphattn.builders.readers._fields import parse_feature_columns
from graphattn.builders.tag_schemes import LIKE_BIOES, convert, detect_scheme, extract_spans
from graphattn.exceptions import ConfigError, DataError, Hint, warn_caller
from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.class_weights import class_weights
from graphattn.models._estimators.inputs import resolve_labels
from graphattn.models._estimators.label_set import LabelSet
from graphattn.models._estimators.tasks.explain import ClassExplainer, Explainer
from graphattn.models._estimators.tasks.files import CorpusFiles
from graphattn.models._estimators.tasks.head import ScorePredictor
from graphattn.models._estimators.tasks.labels import ClassLabels
from graphattn.models._estimators.tasks.recipes import CONLL, Recipe
from graphattn.models._estimators.tasks.rows import Rows, TagRows
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._estimators.word_checks import check_word_counts, have_predicates, require_features
from graphattn.models._features.lexicon import FeatureValues
from graphattn.models._options import EPOCHS_OF_TAGGERS_WITH_VECTORS
from graphattn.models._prediction import Predictions, segment_probability
from graphattn.models._results.entities import EntitySpan, TaggedText, locate_words, merge_ranges
from graphattn.models._results.reports import Outcomes
from graphattn.models.heads import Head, TaggingHead
from graphattn.models.heads._word_features import WordFeatureBranch
from graphattn.models.training._hints import hint_at_forgotten_classes, hint_at_marks, hint_at_misspelt_entities
from graphattn.models.training._metrics import tagging_metrics

if TYPE_CHECKING:
    from graphattn.builders.store import Store


class TagLabels(ClassLabels):
    """The tags of the words of each text. Entity tags are learnt as BIOES.

    ``scheme`` is that of the tags; until they are known, what the user gave. ``repair_tags`` reads invalid tags as
    conlleval does, instead of rejecting them.
    """

    field = predicted_field = "tags"

    def __init__(
        self, class_weight: Mapping[Any, float] | str | None = None, *, scheme: str = "auto", repair_tags: bool = False
    ):
        super().__init__(class_weight)
        self.scheme, self.repair_tags = scheme, repair_tags

    @override
    def check_item(self, item: Example | Sentence, path: str, line: int) -> None:
        if isinstance(item, Sentence) and (error := _find_empty_tag(item.tags or ())):
            error.path, error.line = path, line
            raise error

    @override
    def check_stored(self, store: Store, path: Path) -> None:
        if not store.manifest.tags:
            raise DataError("has no tags", path=path, hint="Build it from a corpus of tagged words.")

    @override
    def resolve(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        labels = resolve_labels(X, y, "tags")
        if y is None and is_stored(X):
            return self.normalize_unicode(labels)
        sources = X if y is None else repeat(None)  # tags in ``y`` have no file and line
        return self.normalize_unicode(
            [_locate_tags(index, tags, item) for index, (tags, item) in enumerate(zip(labels, sources, strict=False))]
        )

    @override
    def list_names(self, labels: Sequence[Any]) -> Iterable[Any]:
        return chain.from_iterable(labels)

    @override
    def rename_label(self, label: Any, respellings: Mapping[Any, str]) -> Any:
        tags = copy(label)  # keeps the origin
        tags[:] = [respellings.get(tag, tag) for tag in tags]
        return tags

    def _flat_labels(self, labels: Sequence[Any]) -> Iterable[Any]:
        return chain.from_iterable(map(self._encode_tags, labels))

    @override
    def stratify(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        return None

    @override
    def fit(self, examples: Texts, options: Mapping[str, Any], previous: Self | None = None) -> None:
        given = {"class_weight": self.class_weight is not None, "label_smoothing": options["training"].label_smoothing}
        if options["head"].crf and any(given.values()):
            conflicting = [name for name in given if given[name]]
            shown = " and ".join(f"{{{name}}}" for name in conflicting)
            fix = f"leave out {shown}, or {{crf}}"
            if previous is not None:
                fix = f"the model to continue from has one, so leave out {shown}, or train from scratch"
            raise ConfigError(f"a CRF scores whole sequences; {fix}", options=(*conflicting, "crf"))
        if previous is not None:
            self.scheme = previous.scheme  # the labels were converted to it
        super().fit(examples, options, previous)

    @override
    def list_hints(self, labels: Sequence[Any], previous: Self | None = None) -> Iterable[Hint | None]:
        if self.scheme == "none":
            yield hint_at_marks(self.list_names(labels), tags=True)
        if previous is not None:
            names, known = self.list_names(labels), previous.classes
            if self.scheme != "none":
                names, known = _list_types(names), _list_types(known)
            yield hint_at_forgotten_classes(names, known)

    @override
    def collect_classes(self, labels: Sequence[Any], known: Sequence[Any]) -> LabelSet:
        if self.scheme == "auto":
            self.scheme = self._detect_scheme(labels, "IOB2")
            hint = hint_at_misspelt_entities(self.list_names(labels)) if self.scheme == "none" else None
            if hint is not None:
                warn_caller(hint)
        try:
            tags = Counter(chain(self._flat_labels(labels), known))
            return LabelSet.of(_complete_entity_tags(tags, self.scheme), what="tag")
        except DataError:
            self._reject_invalid_tags(labels, "training set")
            raise

    @override
    def weigh_classes(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        of_tags = self.class_weight
        if isinstance(of_tags, Mapping) and self.scheme in _LEARNT_PREFIXES:
            ordered = sorted(of_tags, key=lambda tag: str(tag)[:1] == "B")  # in IOB1, B- overrides I- where both apply
            of_tags = {learnt: of_tags[tag] for tag in ordered for learnt in self._learnt_tags(tag)}
        of_words = None if weights is None else np.repeat(weights, [len(tags) for tags in labels])
        return class_weights(of_tags, self.label_set, self._flat_labels(labels), of_words)

    def _learnt_tags(self, tag: str) -> list[str]:
        """The BIOES tags that stand for one of the user's tags."""
        if tag == "O":
            return [tag]
        known = _LEARNT_PREFIXES[self.scheme]
        if str(tag)[:1] not in known:
            raise DataError(
                f"class_weight has the tag {tag!r}, which does not exist in {self.scheme}",
                hint=f"Tags begin with {' or '.join(known)}.",
            )
        return [f"{prefix}{tag[1:]}" for prefix in known[str(tag)[:1]]]

    @property
    def _learnt_scheme(self) -> str:
        return "none" if self.scheme == "none" else "BIOES"

    def _encode_tags(self, tags: Sequence[str]) -> list[str]:
        """Convert the user's tags to those that are learnt."""
        return convert(tags, self.scheme, self._learnt_scheme, repair=self.repair_tags)

    def _decode_tags(self, tags: Sequence[str]) -> list[str]:
        """Convert learnt tags to the user's scheme."""
        return convert(tags, self._learnt_scheme, self.scheme, repair=True)

    @property
    def _entity_types(self) -> list[str]:
        return sorted({tag[2:] for tag in self.classes if tag != "O"})

    @override
    def make_targets(self, labels: Sequence[Any], where: str) -> tuple[npt.NDArray[Any], Ints]:
        counts = np.fromiter(map(len, labels), np.int64, len(labels))
        kind = np.min_scalar_type(len(self.classes))  # usually one byte per word
        try:
            return self.label_set.ids(self._flat_labels(labels), where=where, what="tag", kind=kind), counts
        except DataError:
            if self.scheme != "none":  # name the unknown type instead of a BIOES tag
                occurring = (tag[2:] for tags in labels for tag in tags if tag[1:2] == "-")
                LabelSet(self._entity_types).ids(occurring, where=where, what="entities of type")
            raise

    @override
    def normalize(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        labels = super().normalize(labels, where)
        if self.scheme == "none" or all(_find_invalid_tag(tags, self.scheme) is None for tags in labels):
            return labels
        try:
            scheme = self._detect_scheme(labels, self.scheme)
        except DataError:
            self._reject_other_types(labels, where)
            self._reject_invalid_tags(labels, where)
            raise
        if scheme == "none":
            known = {*self.classes} - {"O"}
            tag = next((tag for tags in labels for tag in tags if tag != "O"), None)
            if not any(tag in known for tags in labels for tag in tags):
                hint = f"The model's tags have the scheme {self.scheme}."
                raise DataError(f"the tags of the {where} mark no entities: {tag!r}", field="tags", hint=hint)
            return labels
        self._reject_invalid_tags(labels, where, scheme)
        return [convert(tags, scheme, self.scheme, repair=self.repair_tags) for tags in labels]

    def _reject_other_types(self, labels: Sequence[Any], where: str) -> None:
        """Raise an error if the model knows none of the types of entities: then it does not help to repair tags."""
        known = self._entity_types
        occurring = sorted({tag[2:] for tags in labels for tag in tags if tag[1:2] == "-"})
        if not set(occurring) & set(known):
            LabelSet(known).ids(occurring, where=where, what="entities of type")

    def _detect_scheme(self, labels: Sequence[Any], default: str) -> str:
        """The scheme of tags; the default if invalid tags break every scheme and ``repair_tags`` is set."""
        try:
            return detect_scheme(labels, name=lambda index: _describe_origin(index, labels[index]))
        except DataError as error:
            if self.repair_tags and all(_find_invalid_tag(tags, default, repair=True) is None for tags in labels):
                return default
            hint = f"Correct the tags, or set {{scheme}} and {_REPAIR}."
            raise DataError(error.message, field="tags", hint=hint, options=("scheme", *_REPAIR_OPTIONS)) from None

    def _reject_invalid_tags(self, labels: Sequence[Any], where: str, scheme: str | None = None) -> None:
        """Raise an error for the first sentence with invalid tags in a scheme, by default the model's."""
        scheme = self.scheme if scheme is None else scheme
        if scheme == "none":
            return
        for index, tags in enumerate(labels):
            error = _find_invalid_tag(tags, scheme, repair=self.repair_tags)
            if error is not None:
                repairable = _find_invalid_tag(tags, scheme, repair=True) is None
                hint = f"Correct the tags, or set {_REPAIR}." if repairable else error.hint
                path, line = _origin(tags)
                position = "in the sentence that begins here," if path else f"sentence {index} of the {where}:"
                message = f"{position} {error.message}"
                raise DataError(message, path=path, line=line, field="tags", hint=hint, options=_REPAIR_OPTIONS)

    @override
    def check_known(self, texts: Texts, inputs: TextInputs, *, unknown: str | None) -> None:
        check_word_counts(texts, inputs.vocabulary)
        super().check_known(texts, inputs, unknown=unknown)

    @property
    @override
    def main_metric(self) -> str:
        return "accuracy" if self.scheme in ("auto", "none") else "f1"

    @override
    def list_metrics(self) -> list[str]:
        return list(tagging_metrics([["O"]], [["O"]], self._metric_scheme))

    @property
    def _metric_scheme(self) -> str:
        return "BIOES" if self.scheme in LIKE_BIOES else self.scheme

    @override
    def measure(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        predicted = self.decode(decisions)
        scheme = self._metric_scheme
        if self.repair_tags or scheme != self.scheme:
            labels, predicted = (
                [convert(tags, self.scheme, scheme, repair=self.repair_tags) for tags in side]
                for side in (labels, predicted)
            )
        return tagging_metrics(labels, predicted, scheme, weights)

    @override
    def compare(self, labels: Sequence[Any], predicted: Sequence[Any]) -> Outcomes:
        size = len(labels)
        if self.scheme == "none":
            numbers = np.arange(size).repeat(list(map(len, labels))).tolist()
            words = zip(numbers, chain.from_iterable(labels), chain.from_iterable(predicted), strict=True)
            return Outcomes.of(words, size, self.classes)
        pairs = enumerate(zip(labels, predicted, strict=True))
        rows = ((number, *types) for number, tags in pairs for types in self._align_entities(*tags))
        return Outcomes.of(rows, size, self._entity_types)

    def _align_entities(self, gold: Sequence[str], predicted: Sequence[str]) -> list[tuple[str | None, str | None]]:
        """Gold and predicted type of the entities with the same words; None where there is none."""
        sides = [
            {span[1:]: span[0] for span in extract_spans(tags, self.scheme, repair=True)} for tags in (gold, predicted)
        ]
        return [(sides[0].get(words), sides[1].get(words)) for words in sides[0] | sides[1]]

    @override
    def make_hashable(self, labels: Iterable[Any]) -> list[Any]:
        return list(chain.from_iterable(labels))

    @override
    def find_mistakes(
        self, examples: Texts, inputs: TextInputs, rerun: Callable[..., Predictions]
    ) -> list[dict[str, Any]]:
        run = rerun(examples, rate=self.rate_entities)
        sides, logs = {"gold": examples.labels, "predicted": self.decode(run.decisions)}, run.log_probabilities or []
        return [
            {**row, "confidence": round(segment_probability(logs[number], first, end), 6)}
            for number, first, end, row in self._find_places(examples, inputs, sides, compared=sides)
        ]

    @override
    def find_disagreements(
        self, examples: Texts, inputs: TextInputs, predicted: Mapping[str, Sequence[Any]]
    ) -> list[dict[str, Any]]:
        sides = {"gold": examples.labels, **predicted}
        return [row for *_, row in self._find_places(examples, inputs, sides, compared=predicted)]

    def _find_places(
        self, examples: Texts, inputs: TextInputs, sides: Mapping[str, Sequence[Any]], *, compared: Collection[str]
    ) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
        """Places where tags of the ``compared`` sides differ: input, first word, one past the last word, and a row."""
        located = locate_words(list(examples.columns[0]), inputs.vocabulary.splitter)
        for number, ((text, offsets), *tags) in enumerate(zip(located, *sides.values(), strict=True)):
            spans_of = {
                name: {*extract_spans(own, self.scheme, repair=True)} for name, own in zip(sides, tags, strict=True)
            }
            counts = Counter(span for name in compared for span in spans_of[name])
            for first, end in merge_ranges(span[1:] for span, count in counts.items() if count < len(compared)):
                start, stop = offsets[first][0], offsets[end - 1][1]
                shown = examples.show(number, text=text)
                row = {**shown, "start": start, "end": stop, "words": text[start:stop]}
                for name, spans in spans_of.items():
                    inside = sorted((span for span in spans if first <= span[1] < end), key=itemgetter(1))
                    names = [f"{kind}: {text[offsets[a][0] : offsets[b - 1][1]]}" for kind, a, b in inside]
                    row[name] = inside[0][0] if self.scheme == "none" else "; ".join(names)
                yield number, first, end, row

    @override
    def decode(self, decisions: list[Any]) -> list[list[str]]:
        return [self._decode_tags(self.class_array[ids].tolist()) for ids in decisions]

    def find_spans(self, inputs: TextInputs, column: Sequence[Any], run: Predictions) -> list[TaggedText]:
        """The text of each input, with type, offsets and confidence of its entities."""
        located, types = locate_words(list(column), inputs.vocabulary.splitter), self._entity_types
        return [
            TaggedText(text, self._spans(text, offsets, ids, logs), types)
            for (text, offsets), ids, logs in zip(located, run.decisions, run.log_probabilities or [], strict=True)
        ]

    def _spans(self, text: str, offsets: list[tuple[int, int]], ids: Ints, logs: npt.NDArray[Any]) -> list[EntitySpan]:
        spans = []
        for name, first, end in extract_spans(self.class_array[ids].tolist(), "BIOES", repair=True):
            start, stop = offsets[first][0], offsets[end - 1][1]
            spans.append(EntitySpan(name, start, stop, text[start:stop], segment_probability(logs, first, end)))
        return spans

    def rate_entities(self, ids: Ints) -> Ints:
        """Decided tags, with those that are invalid as BIOES replaced by those of the entity that they are read as."""
        tags = self._encode_tags(self._decode_tags(self.class_array[ids].tolist()))
        return self.label_set.ids(tags)

    @override
    def to_config(self) -> dict[str, Any]:
        return {"scheme": self.scheme, "repair_tags": self.repair_tags}


class TagPredictor(ScorePredictor):
    """Decides for a tag of each word."""

    def __init__(self, labels: TagLabels):
        self.labels = labels

    @override
    def make_head(self, width: int, options: Mapping[str, Any], weights: Tensor | None) -> Head:
        return TaggingHead(
            width,
            len(self.labels.classes),
            options["head"],
            class_weights=weights,
            label_smoothing=options["training"].label_smoothing,
        )


class Tagging(Task):
    """Tag each word of a text (MS-Trans, section 4.2).

    ``feature_columns`` are further columns of the corpus that are features of words.
    """

    name = corpus_kind = "tag"
    description = "tags words"
    per_word = True
    prediction_options = Task.prediction_options | {"repair_tags"}
    output_formats = (*Task.output_formats, "spans", "conll", "html")
    changeable = (*Task.changeable, "repair_tags")
    linear_branch = WordFeatureBranch
    truncates = False
    has_characters = True
    epochs_with_vectors = EPOCHS_OF_TAGGERS_WITH_VECTORS
    presets: ClassVar[Mapping[str, Recipe]] = {**Task.presets, "ner": CONLL}
    labels_type: ClassVar[type[TagLabels]] = TagLabels
    head_type: ClassVar[type[TagPredictor]] = TagPredictor
    labels: TagLabels
    head: TagPredictor

    def __init__(
        self,
        class_weight: Mapping[Any, float] | str | None = None,
        *,
        scheme: str = "auto",
        repair_tags: bool = False,
        feature_columns: Sequence[str] = (),
        **arguments: Any,
    ):
        super().__init__(**arguments)
        self.feature_columns = feature_columns
        self.labels = self.labels_type(class_weight, scheme=scheme, repair_tags=repair_tags)
        self.head = self.head_type(self.labels)

    @override
    def update(self, arguments: Mapping[str, Any]) -> None:
        super().update(arguments)
        self.labels.repair_tags = arguments["repair_tags"]

    @override
    @classmethod
    def default_options(cls, encoder: type[EncoderOptions]) -> Recipe:
        return {"encoder": vars(encoder.for_tagging())}

    @override
    @classmethod
    def derive_options(cls, options: Mapping[str, Any]) -> Recipe:
        has_crf = options["task"].class_weight is None and not options["training"].label_smoothing
        return {**super().derive_options(options), "head": {"crf": has_crf}}

    @override
    @classmethod
    def limit_options(cls, options: Mapping[str, Any]) -> Recipe:
        return {"head": {"linear_branch": False}} if options["head"].crf is False else {}

    @override
    def find_facts(self, training: Texts, held_out: Texts | None, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"has_predicates": have_predicates(training)}

    @override
    def read(self, corpus: CorpusFiles) -> tuple[Any, Any, Mapping[str, Any]]:
        defaults = {"split": corpus.split, "feature_columns": self.feature_columns}
        return super().read(replace(corpus, options={**defaults, **corpus.options}))

    @override
    def describe_reading(self, training: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().describe_reading(training), "feature_columns": self.feature_columns}

    @property
    @override
    def rows(self) -> Rows:
        return TagRows(self.labels.class_array.tolist())

    @override
    def explain(self, model: Any) -> Explainer:
        return ClassExplainer(model, self.labels.class_array.tolist(), self.labels.decode_for_reports)

    @property
    @override
    def feature_names(self) -> Sequence[str]:
        return list(parse_feature_columns(self.feature_columns))

    @override
    def fit_inputs(self, inputs: TextInputs, examples: Texts, options: Mapping[str, Any], previous: Any) -> Texts:
        examples = super().fit_inputs(inputs, examples, options, previous)
        inputs.predicates = have_predicates(examples) if previous is None else previous.text_inputs_.predicates
        known = None if previous is None else previous.text_inputs_.feature_values
        if previous is not None and {*self.feature_names} != {*({} if known is None else known.values)}:
            raise ConfigError(
                "the model to continue from has other {feature_columns}; leave them out, or train from scratch",
                options=("feature_columns",),
            )
        if self.feature_names:
            require_features(examples, self.feature_names)
            known = FeatureValues(dict.fromkeys(self.feature_names, ())) if known is None else known
            inputs.feature_values = known.extend(x for x in examples.columns[0] if isinstance(x, Sentence))
        return examples

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        return {**super().config_types(), "scheme": str, "repair_tags": bool}

    @override
    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), "feature_columns": list(self.feature_columns)}


_REPAIR, _REPAIR_OPTIONS = "{repair_tags=True}, which reads invalid tags as conlleval does", ("repair_tags",)
_LEARNT_PREFIXES = {
    "IOB1": {"B": "BS", "I": "BIES"},
    "IOB2": {"B": "BS", "I": "IE"},
    **{scheme: dict(zip(letters, "BIES", strict=True)) for scheme, letters in LIKE_BIOES.items()},
}
"""Scheme -> prefix of a tag -> prefixes of the BIOES tags that are learnt for it."""


class _LocatedTags(list[str]):
    """The tags of a sentence, with its file and line."""

    __slots__ = ("origin",)
    origin: tuple[str, int]


def _origin(tags: Any) -> tuple[str, int] | tuple[None, None]:
    return getattr(tags, "origin", None) or (None, None)


def _describe_origin(index: int, tags: Any) -> str:
    path, line = _origin(tags)
    return f"sequence {index}" if path is None else f"the sentence at line {line} of {path}"


def _locate_tags(index: int, tags: Any, source: Any) -> list[str]:
    """The tags of a sentence with its file and line, if known."""
    if not is_list(tags):
        raise DataError(
            f"the tags of input {index} are {tags!r}", field="tags", hint="Give a list with one tag for each word."
        )
    origin = getattr(source, "origin", None)
    located = _LocatedTags(tags)
    if origin is not None:
        located.origin = origin
    for tag in located:
        if not isinstance(tag, str):
            raise DataError(
                f"input {index} has the tag {tag!r} of type {type(tag).__name__}",
                field="tags",
                hint="Tags are strings; use str(tag) for numbers.",
            )
    if error := _find_empty_tag(located):
        error.message = f"{error.message} in input {index}"
        error.path, error.line = _origin(located)
        raise error
    return located


def _find_empty_tag(tags: Sequence[str]) -> DataError | None:
    """The error about a tag without a name, if there is one."""
    empty = next((number for number, tag in enumerate(tags) if not tag.strip()), None)
    if empty is None:
        return None
    hint = "Name it: O, or another tag of your own, for words without one."
    return DataError(f"the tag of word {empty} is empty", field="tags", hint=hint)


def _complete_entity_tags(tags: Counter[str], scheme: str) -> Counter[str]:
    """Add all BIOES tags of the occurring types: with B-PER in IOB2, S-PER may not occur."""
    if scheme == "none":
        return tags
    types = dict.fromkeys(tag[1:] for tag in tags if tag != "O")
    return tags + Counter(f"{prefix}{name}" for name in types for prefix in "BIES")


def _list_types(tags: Iterable[str]) -> list[str]:
    """The types of entities in tags, each once."""
    return list(dict.fromkeys(tag[2:] for tag in tags if tag != "O"))


def _find_invalid_tag(tags: Sequence[str], scheme: str, *, repair: bool = False) -> DataError | None:
    """The error about tags that are invalid in a scheme, if any."""
    try:
        extract_spans(tags, scheme, repair=repair)
    except DataError as error:
        return error
    return None
