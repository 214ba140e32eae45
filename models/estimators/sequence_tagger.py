"""The sequence tagger: predicts a tag for each word."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain, repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn.builders import Example, Sentence
from graphattn.builders.layout import Ints
from graphattn.builders.lazy_texts import LazyCorpus, LazyTexts
from graphattn.builders.tag_schemes import LIKE_BIOES, SCHEMES, convert, detect_scheme, extract_spans
from graphattn.exceptions import ConfigError, DataError, verbatim
from graphattn.models.corpus import Corpus
from graphattn.models.encoders import EncoderOptions
from graphattn.models.entities import EntitySpan, TaggedText, format_conll, locate_words, merge_ranges
from graphattn.models.estimators.class_weights import class_weights
from graphattn.models.estimators.inputs import Columns, input_fields, resolve_labels
from graphattn.models.estimators.labelling import PRESET_HELP, PRESETS, LabellingEstimator
from graphattn.models.estimators.labels import LabelSet
from graphattn.models.estimators.prediction import predict_corpus, segment_probability
from graphattn.models.estimators.task import Examples
from graphattn.models.heads import Head, TaggingHead
from graphattn.models.heads.word_features import WordFeatureBranch
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.pretrained.options import PretrainedOptions
from graphattn.models.reports import Outcomes
from graphattn.models.saving import ModelFiles, register_task
from graphattn.options import Options, ParsingOptions, option

if TYPE_CHECKING:
    from graphattn.builders.store import Store


@dataclass
class TaggerOptions(Options):
    """Arguments of :class:`SequenceTagger` besides its groups of options."""

    preset: str = option("default", PRESET_HELP, choices=PRESETS, common=True)
    class_weight: str | None = option(None, "give rare classes more weight in the loss", choices=("balanced",))
    scheme: str = option("auto", "scheme of entity tags", choices=("auto", *SCHEMES))
    repair_tags: bool = option(False, "read invalid tags as conlleval does, instead of rejecting them")


@register_task
class SequenceTagger(LabellingEstimator):
    """Tag each word of a text (MS-Trans, section 4.2).

    Inputs are lists of words, :class:`Sentence`, or texts (split into words by the vocabulary). Entity tags are learnt
    as BIOES and predicted in the scheme of the training set. By default ``"ms-trans"`` has the paper's settings for
    tagging: windows of 1, 3, 5, 7 and 9 words and alpha 1. Sentences with ``predicates`` are for semantic role
    labelling: an embedding marks the predicate whose roles the tags are, and there is no linear branch, which would not
    see it.

    Parameters
    ----------
    encoder, inputs, head, training, parsing, warm_start : as for :class:`TextClassifier`; ``head.crf`` adds a CRF
    class_weight : None, ``"balanced"`` (over the learnt tags), or tag -> weight, in the scheme of the training set: the
        weight of B- also applies to entities of one word, that of I- also to the last word of an entity
    scheme : scheme of the tags, one of :data:`~graphattn.builders.tag_schemes.SCHEMES`; ``"auto"`` detects it
    repair_tags : read invalid tags as conlleval does (an I- that continues nothing begins an entity) instead of
        rejecting them

    Examples
    --------
    >>> from graphattn.models import TrainingOptions
    >>> tagger = SequenceTagger(training=TrainingOptions(epochs=10, learning_rate=1e-3))
    >>> words, tags = [["a", "dog"], ["the", "cat"]] * 10, [["DET", "NOUN"]] * 20
    >>> tagger.fit(words, tags).predict([["the", "dog"]])
    [['DET', 'NOUN']]
    """

    task = corpus_kind = "tag"
    prediction_options = LabellingEstimator.prediction_options | {"repair_tags"}
    description = "tags words"
    label_field = "tags"
    _wide_kind = WordFeatureBranch
    _characters_by_default = True
    option_groups: ClassVar = {**LabellingEstimator.option_groups, "task": TaggerOptions}
    unused_options = frozenset(
        {"max_tokens_per_text", "strip_html", "pooling", "head_hidden", "pair_features", "join_pairs"}
    )
    output_formats = ("json", "spans", "conll", "html")

    def __init__(
        self,
        encoder: str | EncoderOptions | None = None,
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        preset: str = "default",
        scheme: str = "auto",
        repair_tags: bool = False,
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        warm_start: bool = False,
    ):
        super().__init__(
            encoder,
            inputs=inputs,
            head=head,
            training=training,
            class_weight=class_weight,
            parsing=parsing,
            pretrained=pretrained,
            preset=preset,
            warm_start=warm_start,
        )
        self.scheme, self.repair_tags = scheme, repair_tags

    @property
    @override
    def main_metric(self) -> str:
        return "accuracy" if getattr(self, "scheme_", "none") == "none" else "f1"

    @override
    def predict(self, X: Iterable[Any]) -> list[list[str]]:
        """The tags of each input, in their order."""
        return _PerText(self._decode_labels(self._run(X).decisions))

    def predict_proba(self, X: Iterable[Any]) -> list[npt.NDArray[np.float32]]:
        """For each input (words, C) probabilities (marginals with a CRF), columns as in ``classes_``."""
        return _PerText(self._run(X, probabilities=True).probabilities or [])

    def predict_spans(self, X: Iterable[Any]) -> list[TaggedText]:
        """The text of each input, with type, offsets and confidence of its entities.

        Offsets count characters of raw texts; lists of words and sentences are joined by blanks.

        Raises
        ------
        ConfigError
            if the tags mark no entities
        """
        self._check_fitted()
        if self.scheme_ == "none":
            example = self.classes_.tolist()[0]
            raise ConfigError(
                f"the model's tags, such as {verbatim(repr(example))}, mark no entities; {{output}} can be json or "
                "conll",
                options=("output",),
            )
        (column,) = self._columns(X)
        run = self._run(column, rate=self._entity_ids)
        types = sorted({tag[2:] for tag in self.classes_.tolist() if tag != "O"})
        located = locate_words(list(column), self.vocabulary_.splitter)
        return [
            TaggedText(text, self._spans(text, offsets, ids, logs), types)
            for (text, offsets), ids, logs in zip(located, run.decisions, run.log_probabilities or [], strict=True)
        ]

    def _spans(self, text: str, offsets: list[tuple[int, int]], ids: Ints, logs: npt.NDArray[Any]) -> list[EntitySpan]:
        spans = []
        for name, first, end in extract_spans(self.classes_[ids].tolist(), "BIOES", repair=True):
            start, stop = offsets[first][0], offsets[end - 1][1]
            spans.append(EntitySpan(name, start, stop, text[start:stop], segment_probability(logs, first, end)))
        return spans

    def _entity_ids(self, ids: Ints) -> Ints:
        """Decided tags, with those that are invalid as BIOES replaced by those of the entity that they are read as."""
        tags = self._encode_tags(self._decode_tags(self.classes_[ids].tolist()))
        return self.labels_.ids(tags)

    @override
    def format_predictions(self, X: Sequence[Any], output: str) -> list[str]:
        if output == "conll":
            rows = self.predict_rows(X)
            return [format_conll(row["words"], row["tags"]) for row in rows]
        if output == "html":
            return [f"{tagged._repr_html_()}\n" for tagged in self.predict_spans(X)]
        if output == "spans":
            return [json.dumps(tagged.to_row(), ensure_ascii=False) + "\n" for tagged in self.predict_spans(X)]
        return super().format_predictions(X, output)

    @classmethod
    @override
    def encoder_defaults(cls, options: type[EncoderOptions], preset: str) -> EncoderOptions:
        return options.for_tagging()

    @override
    def _resolve_options(self) -> None:
        super()._resolve_options()
        if self.head_.crf is None:
            self.head_.crf = self.class_weight is None and not self.training_.label_smoothing
        self.head_.wide = self.head_.wide and self.head_.crf

    @override
    def _read_file(self, path: Path, format: str, options: dict[str, Any]) -> list[Example | Sentence]:
        split = getattr(self, "inputs_", self.inputs).split
        return super()._read_file(path, format, {"split": split, **options})

    @override
    def _check_stored(self, store: Store, path: Path) -> None:
        if not store.manifest.tags:
            raise DataError("has no tags", path=path, hint="Build it from a corpus of tagged words.")

    @override
    def _format_prediction(self, x: Any, prediction: Any) -> dict[str, Any]:
        text = getattr(x, "text", x)
        words = self.vocabulary_.split(text) if isinstance(text, str) else input_fields(x)["words"]
        return {"words": words, "tags": list(prediction)}

    @override
    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        labels = resolve_labels(X, y, "tags")
        if y is None and isinstance(X, LazyCorpus):
            return self._unify_spelling(labels)
        sources = X if y is None else repeat(None)  # tags in ``y`` have no file and line
        return self._unify_spelling(
            [_locate_tags(index, tags, item) for index, (tags, item) in enumerate(zip(labels, sources, strict=False))]
        )

    @override
    def _names(self, labels: Sequence[Any]) -> Iterable[Any]:
        return chain.from_iterable(labels)

    @override
    def _respell(self, label: Any, respellings: Mapping[Any, str]) -> Any:
        tags = copy(label)  # keeps the origin
        tags[:] = [respellings.get(tag, tag) for tag in tags]
        return tags

    @override
    def _flat_labels(self, labels: Sequence[Any]) -> Iterable[Any]:
        return chain.from_iterable(map(self._encode_tags, labels))

    @override
    def _strata(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        return None

    @override
    def _label_set(self, labels: Sequence[Any]) -> LabelSet:
        if self.head_.crf and (self.class_weight is not None or self.training_.label_smoothing):
            raise ConfigError(
                "a CRF scores whole sequences; leave out {class_weight} and {label_smoothing}, or {crf}",
                options=("class_weight", "label_smoothing", "crf"),
            )
        if self._previous is None:  # otherwise the labels were converted to its scheme
            self.scheme_ = self._detect_scheme(labels, "IOB2") if self.scheme == "auto" else self.scheme
        try:
            tags = Counter(chain(self._flat_labels(labels), self._list_known_classes()))
            return LabelSet.of(_complete_entity_tags(tags, self.scheme_), what="tag")
        except DataError:
            self._reject_invalid_tags(labels, "training set")
            raise

    @override
    def _fit_labels(self, examples: Examples) -> None:
        from graphattn.models.training.hints import hint_at_marks

        super()._fit_labels(examples)
        hint = hint_at_marks(chain.from_iterable(examples.labels), tags=True) if self.scheme_ == "none" else None
        if hint is not None:
            warnings.warn(hint, stacklevel=4)

    @override
    def _hashable_labels(self, labels: Iterable[Any]) -> list[Any]:
        return list(chain.from_iterable(labels))

    @override
    def _class_weights(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        of_tags = self.class_weight
        if isinstance(of_tags, Mapping) and self.scheme_ in _LEARNT_PREFIXES:
            ordered = sorted(of_tags, key=lambda tag: str(tag)[:1] == "B")  # in IOB1, B- overrides I- where both apply
            of_tags = {learnt: of_tags[tag] for tag in ordered for learnt in self._learnt_tags(tag)}
        of_words = None if weights is None else np.repeat(weights, [len(tags) for tags in labels])
        return class_weights(of_tags, self.labels_, self._flat_labels(labels), of_words)

    def _learnt_tags(self, tag: str) -> list[str]:
        """The BIOES tags that stand for one of the user's tags."""
        if tag == "O":
            return [tag]
        known = _LEARNT_PREFIXES[self.scheme_]
        if str(tag)[:1] not in known:
            raise DataError(
                f"class_weight has the tag {tag!r}, which does not exist in {self.scheme_}",
                hint=f"Tags begin with {' or '.join(known)}.",
            )
        return [f"{prefix}{tag[1:]}" for prefix in known[str(tag)[:1]]]

    def _encode_tags(self, tags: Sequence[str]) -> list[str]:
        """Convert the user's tags to BIOES."""
        return list(tags) if self.scheme_ == "none" else convert(tags, self.scheme_, "BIOES", repair=self.repair_tags)

    def _decode_tags(self, tags: Sequence[str]) -> list[str]:
        """Convert BIOES to the user's scheme."""
        return list(tags) if self.scheme_ == "none" else convert(tags, "BIOES", self.scheme_, repair=True)

    @override
    def _fit_vocabulary(self, examples: Examples) -> None:
        super()._fit_vocabulary(examples)
        column = examples.columns[0]
        marked = (getattr(source, "predicates", None) is not None for source in column)
        self.tokens_.predicates = not isinstance(column, LazyTexts) and any(marked)  # a store keeps no marks
        if self.tokens_.predicates:  # the linear branch would not see them
            self.head_.wide = False

    @override
    def _corpus(
        self,
        columns: Columns,
        labels: Sequence[Any] | None = None,
        *,
        where: str = "data",
        numbers: Sequence[int] | None = None,
    ) -> Corpus:
        if self.tokens_.predicates:
            _require_predicates(columns[0], where)
        return super()._corpus(columns, labels, where=where, numbers=numbers)

    @override
    def _targets(self, labels: Sequence[Any], where: str) -> tuple[npt.NDArray[Any], Ints]:
        counts = np.fromiter(map(len, labels), np.int64, len(labels))
        kind = np.min_scalar_type(len(self.labels_))  # usually one byte per word
        try:
            return self.labels_.ids(self._flat_labels(labels), where=where, what="tag", kind=kind), counts
        except DataError:
            if self.scheme_ != "none":  # name the unknown type instead of a BIOES tag
                types = LabelSet(sorted({tag[2:] for tag in self.labels_.classes if tag != "O"}))
                occurring = (tag[2:] for tags in labels for tag in tags if tag[1:2] == "-")
                types.ids(occurring, where=where, what="entities of type")
            raise

    @override
    def _normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        labels = super()._normalize_labels(labels, where)
        if self.scheme_ == "none" or all(_find_invalid_tag(tags, self.scheme_) is None for tags in labels):
            return labels
        try:
            scheme = self._detect_scheme(labels, self.scheme_)
        except DataError:
            self._reject_invalid_tags(labels, where)
            raise
        if scheme == "none":
            known = {*self.labels_.classes} - {"O"}
            tag = next((tag for tags in labels for tag in tags if tag != "O"), None)
            if not any(tag in known for tags in labels for tag in tags):
                hint = f"The model's tags have the scheme {self.scheme_}."
                raise DataError(f"the tags of the {where} mark no entities: {tag!r}", field="tags", hint=hint)
            return labels
        self._reject_invalid_tags(labels, where, scheme)
        return [convert(tags, scheme, self.scheme_, repair=self.repair_tags) for tags in labels]

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
        scheme = self.scheme_ if scheme is None else scheme
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
    def _check_sizes(
        self, labels: Sequence[Any], columns: Columns, where: str, numbers: Sequence[int] | None = None
    ) -> None:
        column = columns[0]
        if isinstance(column, LazyTexts):
            words = column.num_words().tolist()
        else:
            words = [sentence.num_words for sentence in self.vocabulary_.sentences(column)]
        for index, (word_count, tags) in enumerate(zip(words, labels, strict=True)):
            if word_count != len(tags):
                number = index if numbers is None else numbers[index]
                raise DataError(
                    f"sentence {number} of the {where} has {word_count} words but {len(tags)} tags",
                    field="tags",
                    hint="Give one tag for each word.",
                )

    @override
    def _make_head(self, width: int, weights: Tensor | None) -> Head:
        return TaggingHead(
            width,
            len(self.labels_),
            self.head_,
            class_weights=weights,
            label_smoothing=self.training_.label_smoothing,
        )

    @override
    def _metrics(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        from graphattn.models.training.metrics import tagging_metrics

        predicted = self._decode_labels(decisions)
        if self.repair_tags and self.scheme_ != "none":
            labels = [convert(tags, self.scheme_, self.scheme_, repair=True) for tags in labels]
        if self.scheme_ in LIKE_BIOES:
            both = labels, predicted
            labels, predicted = ([convert(tags, self.scheme_, "BIOES") for tags in side] for side in both)
        return tagging_metrics(labels, predicted, self._metric_scheme, weights)

    @override
    def _outcomes(self, labels: Sequence[Any], decisions: list[Any]) -> Outcomes:
        size, predicted = len(labels), self._decode_labels(decisions)
        if self.scheme_ == "none":
            numbers = np.arange(size).repeat(list(map(len, labels))).tolist()
            rows = zip(numbers, chain.from_iterable(labels), chain.from_iterable(predicted), strict=True)
            return Outcomes.of(rows, size, self.labels_.classes)
        types = sorted({tag[2:] for tag in self.labels_.classes if tag != "O"})
        pairs = enumerate(zip(labels, predicted, strict=True))
        return Outcomes.of(
            ((number, *types_of) for number, tags in pairs for types_of in self._align_entities(*tags)), size, types
        )

    def _align_entities(self, gold: Sequence[str], predicted: Sequence[str]) -> list[tuple[str | None, str | None]]:
        """Gold and predicted type of the entities with the same words; None where there is none."""
        sides = [
            {span[1:]: span[0] for span in extract_spans(tags, self.scheme_, repair=True)} for tags in (gold, predicted)
        ]
        return [(sides[0].get(words), sides[1].get(words)) for words in sides[0] | sides[1]]

    @override
    def _find_mistakes(self, examples: Examples) -> list[dict[str, Any]]:
        (column,) = examples.columns
        run = predict_corpus(self.model_, self._corpus(examples.columns), rate=self._entity_ids)
        located, rows = locate_words(list(column), self.vocabulary_.splitter), []
        tagged = zip(located, examples.labels, self._decode_labels(run.decisions), strict=True)
        for ((text, offsets), *both), logs in zip(tagged, run.log_probabilities or [], strict=True):
            gold, predicted = ({*extract_spans(tags, self.scheme_, repair=True)} for tags in both)
            for first, end in merge_ranges(span[1:] for span in gold ^ predicted):
                start, stop = offsets[first][0], offsets[end - 1][1]
                row = {"text": text, "start": start, "end": stop, "words": text[start:stop]}
                for name, spans in (("gold", gold), ("predicted", predicted)):
                    inside = sorted((span for span in spans if first <= span[1] < end), key=itemgetter(1))
                    names = [f"{kind}: {text[offsets[a][0] : offsets[b - 1][1]]}" for kind, a, b in inside]
                    row[name] = inside[0][0] if self.scheme_ == "none" else "; ".join(names)
                rows.append({**row, "confidence": round(segment_probability(logs, first, end), 6)})
        return rows

    @override
    def _metric_names(self) -> list[str]:
        from graphattn.models.training.metrics import tagging_metrics

        return list(tagging_metrics([["O"]], [["O"]], self._metric_scheme))

    @property
    def _metric_scheme(self) -> str:
        return "BIOES" if self.scheme_ in LIKE_BIOES else self.scheme_

    @override
    def _decode_labels(self, decisions: list[Any]) -> list[list[str]]:
        return [self._decode_tags(self.classes_[ids].tolist()) for ids in decisions]

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        return {**super().config_types(), "scheme": str, "repair_tags": bool | None}

    @override
    def _extra_config(self) -> dict[str, Any]:
        return {"scheme": self.scheme_, "repair_tags": self.repair_tags}

    @override
    @classmethod
    def _from_files(cls, files: ModelFiles) -> Self:
        tagger = super()._from_files(files)
        tagger.scheme_ = tagger.scheme
        return tagger


class _PerText(list[Any]):
    """A list that NumPy keeps as one object for each text, as ``cross_val_predict`` needs it for joining folds."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.object_]:
        return np.fromiter(self, object, len(self))


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
    if isinstance(tags, str) or not isinstance(tags, Iterable):
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
    return located


def _require_predicates(column: Sequence[Any], where: str) -> None:
    """Reject sentences without marks of predicates."""
    for index, source in enumerate([None] if isinstance(column, LazyTexts) else column):
        if getattr(source, "predicates", None) is None:
            path, line = getattr(source, "origin", None) or (None, None)
            what = "this sentence" if path else f"sentence {index} of the {where}"
            raise DataError(
                f"{what} marks no predicate, as those that the model learnt from do",
                path=path,
                line=line,
                field="predicates",
                hint="Give CoNLL columns and {predicate_column}, or sentences with predicates, 0 or 1 for each word.",
                options=("predicate_column",),
            )


def _complete_entity_tags(tags: Counter[str], scheme: str) -> Counter[str]:
    """Add all BIOES tags of the occurring types: with B-PER in IOB2, S-PER may not occur."""
    if scheme == "none":
        return tags
    types = dict.fromkeys(tag[1:] for tag in tags if tag != "O")
    return tags + Counter(f"{prefix}{name}" for name in types for prefix in "BIES")


def _find_invalid_tag(tags: Sequence[str], scheme: str, *, repair: bool = False) -> DataError | None:
    """The error about tags that are invalid in a scheme, if any."""
    try:
        extract_spans(tags, scheme, repair=repair)
    except DataError as error:
        return error
    return None
