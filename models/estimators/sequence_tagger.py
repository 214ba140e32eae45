"""The sequence tagger: words in, one tag for each out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import Self, override

from graphattn.builders.layout import Ints
from graphattn.builders.lazy_texts import LazyCorpus, LazyTexts
from graphattn.builders.tag_schemes import SCHEMES, convert, detect_scheme, extract_spans
from graphattn.exceptions import ConfigError, DataError
from graphattn.models.encoders import ENCODERS, EncoderOptions
from graphattn.models.estimators.class_weights import class_weights
from graphattn.models.estimators.inputs import Columns, input_fields, resolve_labels, single_column
from graphattn.models.estimators.labelling import FileOptions, LabellingEstimator
from graphattn.models.estimators.labels import LabelSet
from graphattn.models.heads import Head, TaggingHead
from graphattn.models.options import HeadOptions, InputOptions, Options, TrainingOptions, option
from graphattn.models.saving import ModelFiles, register_task

if TYPE_CHECKING:
    from graphattn.builders.store import Store


@dataclass
class TaggerOptions(Options):
    """Arguments of :class:`SequenceTagger` besides its groups of options."""

    class_weight: str | None = option(None, "weigh rare classes up in the loss", choices=("balanced",))
    scheme: str = option("auto", "scheme of entity tags", choices=("auto", "IOB1", "IOB2", "BIOES", "none"))
    repair_tags: bool = option(False, "read tags that break their scheme as conlleval does, instead of refusing them")


@register_task
class SequenceTagger(LabellingEstimator):
    """Tag each word of a text (MS-Trans, section 4.2).

    Inputs are lists of words, :class:`Sentence`, or texts (cut into words by the vocabulary). Entity tags are
    learnt as BIOES and given back in the scheme of the training set. The name ``"ms-trans"`` stands for the paper's
    settings for tagging: windows of 1, 3, 5, 7 and 9 words and alpha 1.

    Parameters
    ----------
    encoder, inputs, head, training : as for :class:`TextClassifier`; ``head.crf`` adds a CRF
    class_weight : None, ``"balanced"`` (over the tags that are learnt), or tag -> weight, in the scheme of the training
        set: the weight of a B- also holds where an entity has one word, that of an I- also for its last one
    scheme : scheme of the tags, ``"IOB1"``, ``"IOB2"``, ``"BIOES"`` or ``"none"``; ``"auto"`` detects it
    repair_tags : read tags that break their scheme as conlleval does (an I- that continues nothing begins an entity)
        instead of refusing them

    Examples
    --------
    >>> from graphattn.models import TrainingOptions
    >>> tagger = SequenceTagger(training=TrainingOptions(epochs=10, learning_rate=1e-3))
    >>> words, tags = [["a", "dog"], ["the", "cat"]] * 10, [["DET", "NOUN"]] * 20
    >>> tagger.fit(words, tags).predict([["the", "dog"]])
    [['DET', 'NOUN']]
    """

    task = corpus_kind = "tag"
    description = "tags words"
    label_field = "tags"
    option_groups: ClassVar[Mapping[str, type[Options]]] = {
        "files": FileOptions,
        "task": TaggerOptions,
        "inputs": InputOptions,
        "encoder": EncoderOptions,
        "head": HeadOptions,
        "training": TrainingOptions,
    }
    unused_options = frozenset({"pooling", "head_hidden", "pair_features"})

    def __init__(
        self,
        encoder: str | EncoderOptions = "ms-trans",
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        scheme: str = "auto",
        repair_tags: bool = False,
    ):
        super().__init__(encoder, inputs=inputs, head=head, training=training, class_weight=class_weight)
        self.scheme, self.repair_tags = scheme, repair_tags

    @property
    @override
    def main_metric(self) -> str:
        return "accuracy" if getattr(self, "scheme_", "none") == "none" else "f1"

    @override
    def predict(self, X: Iterable[Any]) -> list[list[str]]:
        """The tags of each input, in their order."""
        return self._decode_labels(self._run(X).decisions)

    def predict_proba(self, X: Iterable[Any]) -> list[npt.NDArray[np.float32]]:
        """For each input (words, C) probabilities (marginals with a CRF), columns as in ``classes_``."""
        return self._run(X, probabilities=True).probabilities or []

    @override
    def resolved_encoder(self) -> EncoderOptions:
        if isinstance(self.encoder, str) and self.encoder in ENCODERS:
            return ENCODERS[self.encoder][0].for_tagging()
        return super().resolved_encoder()

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
    def _columns(self, X: Iterable[Any]) -> Columns:
        return single_column(X)

    @override
    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        labels = resolve_labels(X, y, "tags")
        if y is None and isinstance(X, LazyCorpus):
            return labels
        sources = X if y is None else repeat(None)  # tags of their own do not stand where the sentences do
        return [_tags(index, tags, source) for index, (tags, source) in enumerate(zip(labels, sources, strict=False))]

    @override
    def _flat_labels(self, labels: Sequence[Any]) -> Iterable[Any]:
        return chain.from_iterable(map(self._inner, labels))

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
        if self.scheme not in ("auto", *SCHEMES):
            names = ", ".join(map(repr, ("auto", *SCHEMES)))
            raise ConfigError(f"{{scheme}} {self.scheme!r} does not exist. Use one of {names}.", options=("scheme",))
        self.scheme_ = self._detected(labels, "IOB2") if self.scheme == "auto" else self.scheme
        try:
            return LabelSet.of(_with_kin(Counter(self._flat_labels(labels)), self.scheme_), what="tag")
        except DataError:
            self._refuse_broken(labels, "training set")
            raise

    @override
    def _class_weights(self, labels: Sequence[Any]) -> Tensor | None:
        given = self.class_weight
        if isinstance(given, Mapping) and self.scheme_ in _LEARNT:
            by_width = sorted(given, key=lambda tag: str(tag)[:1] == "B")  # what IOB1's I- and B- share is the B-'s
            given = {own: given[tag] for tag in by_width for own in self._learnt(tag)}
        return class_weights(given, self.labels_, self._flat_labels(labels))

    def _learnt(self, tag: str) -> list[str]:
        """The tags that are learnt in place of one of the user's."""
        if tag == "O":
            return [tag]
        prefixes = _LEARNT[self.scheme_].get(str(tag)[:1])
        if prefixes is None:
            raise DataError(
                f"class_weight names the tag {tag!r}, which is none of {self.scheme_}",
                hint=f"Tags begin with {' or '.join(_LEARNT[self.scheme_])}; S- and E- follow from them.",
            )
        return [f"{prefix}{tag[1:]}" for prefix in prefixes]

    def _inner(self, tags: Sequence[str]) -> list[str]:
        """Tags as they are learnt."""
        return list(tags) if self.scheme_ == "none" else convert(tags, self.scheme_, "BIOES", repair=self.repair_tags)

    def _outer(self, tags: Sequence[str]) -> list[str]:
        """Tags as the user knows them."""
        return list(tags) if self.scheme_ == "none" else convert(tags, "BIOES", self.scheme_, repair=True)

    @override
    def _targets(self, labels: Sequence[Any], columns: Columns, where: str) -> tuple[npt.NDArray[Any], Ints]:
        self._check_sizes(labels, columns, where)
        counts = np.fromiter(map(len, labels), np.int64, len(labels))
        kind = np.min_scalar_type(len(self.labels_))  # one byte a word, as a rule
        try:
            return self.labels_.ids(self._flat_labels(labels), where=where, what="tag", kind=kind), counts
        except DataError:
            if self.scheme_ != "none":  # tags are learnt in a scheme of our own, and no user has written those
                types = LabelSet(sorted({tag[2:] for tag in self.labels_.classes if tag != "O"}))
                given = (tag[2:] for tags in labels for tag in tags if tag[1:2] == "-")
                types.ids(given, where=where, what="entities of type")
            raise

    @override
    def _normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        if self.scheme_ == "none" or all(_fault(tags, self.scheme_) is None for tags in labels):
            return labels
        try:
            theirs = self._detected(labels, self.scheme_)
        except DataError:
            self._refuse_broken(labels, where)
            raise
        if theirs == "none":
            known = {*self.labels_.classes} - {"O"}
            tag = next((tag for tags in labels for tag in tags if tag != "O"), None)
            if not any(tag in known for tags in labels for tag in tags):
                hint = f"The model's tags are of the scheme {self.scheme_}."
                raise DataError(f"the tags of the {where} mark no entities: {tag!r}", field="tags", hint=hint)
            return labels
        self._refuse_broken(labels, where, theirs)
        return [convert(tags, theirs, self.scheme_, repair=self.repair_tags) for tags in labels]

    def _detected(self, labels: Sequence[Any], likely: str) -> str:
        """The scheme of tags; the likely one where a slip breaks all of them and slips are repaired."""
        try:
            return detect_scheme(labels, name=lambda index: _name(index, labels[index]))
        except DataError as error:
            if self.repair_tags and all(_fault(tags, likely, repair=True) is None for tags in labels):
                return likely
            raise DataError(
                error.message,
                field="tags",
                hint=f"Correct the tags, or name their scheme (--scheme) and set {_REPAIR}.",
            ) from None

    def _refuse_broken(self, labels: Sequence[Any], where: str, scheme: str | None = None) -> None:
        """Name the first sentence whose tags break a scheme, the model's own when None."""
        scheme = self.scheme_ if scheme is None else scheme
        if scheme == "none":
            return
        for index, tags in enumerate(labels):
            fault = _fault(tags, scheme, repair=self.repair_tags)
            if fault is not None:
                verb = "train with" if hasattr(self, "model_") else "set"
                hint = fault.hint if _fault(tags, scheme, repair=True) else f"Correct the tags, or {verb} {_REPAIR}."
                path, line = _origin(tags)
                place = "in the sentence that begins here," if path else f"sentence {index} of the {where}:"
                raise DataError(f"{place} {fault.message}", path=path, line=line, field="tags", hint=hint)

    @override
    def _check_sizes(self, labels: Sequence[Any], columns: Columns, where: str) -> None:
        column = columns[0]
        if isinstance(column, LazyTexts):
            words = column.num_words().tolist()
        else:
            words = [sentence.num_words for sentence in self.vocabulary_.sentences(column)]
        for index, (word_count, tags) in enumerate(zip(words, labels, strict=True)):
            if word_count != len(tags):
                raise DataError(
                    f"sentence {index} of the {where} has {word_count} words but {len(tags)} tags",
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
    def _metrics(self, labels: Sequence[Any], decisions: list[Any]) -> dict[str, float]:
        from graphattn.models.training.metrics import tagging_metrics

        if self.repair_tags and self.scheme_ != "none":
            labels = [convert(tags, self.scheme_, self.scheme_, repair=True) for tags in labels]
        return tagging_metrics(labels, self._decode_labels(decisions), self.scheme_)

    @override
    def _metric_names(self) -> list[str]:
        from graphattn.models.training.metrics import tagging_metrics

        return list(tagging_metrics([["O"]], [["O"]], self.scheme_))

    @override
    def _decode_labels(self, decisions: list[Any]) -> list[list[str]]:
        return [self._outer(self.classes_[ids].tolist()) for ids in decisions]

    @override
    def _extra_config(self) -> dict[str, Any]:
        return {"scheme": self.scheme_, "repair_tags": self.repair_tags}

    @override
    @classmethod
    def _extra_arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"scheme": config["scheme"], "repair_tags": config.get("repair_tags", False)}

    @override
    @classmethod
    def _from_files(cls, files: ModelFiles) -> Self:
        tagger = super()._from_files(files)
        tagger.scheme_ = tagger.scheme
        return tagger


_REPAIR = "repair_tags (--repair-tags), which reads slips as conlleval does"
_LEARNT = {"IOB1": {"B": "BS", "I": "BIES"}, "IOB2": {"B": "BS", "I": "IE"}}
"""Scheme -> first letter of a tag -> those of the BIOES tags that are learnt for it."""


class _Tags(list[str]):
    """The tags of a sentence, with its file and line."""

    __slots__ = ("origin",)
    origin: tuple[str, int]


def _origin(tags: Any) -> tuple[str, int] | tuple[None, None]:
    return getattr(tags, "origin", None) or (None, None)


def _name(index: int, tags: Any) -> str:
    path, line = _origin(tags)
    return f"sequence {index}" if path is None else f"the sentence at line {line} of {path}"


def _tags(index: int, tags: Any, source: Any) -> list[str]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise DataError(
            f"the tags of input {index} are {tags!r}", field="tags", hint="Give a list with one tag for each word."
        )
    origin = getattr(source, "origin", None)
    located = _Tags(tags)
    if origin is not None:
        located.origin = origin
    for tag in located:
        if not isinstance(tag, str):
            raise DataError(
                f"input {index} has the tag {tag!r} of type {type(tag).__name__}",
                field="tags",
                hint="Tags are strings: give their names, or str(tag) for numbers.",
            )
    return located


def _with_kin(tags: Counter[str], scheme: str) -> Counter[str]:
    """Learnt tags and all others of the same types: S-PER may be missing where a user sees B-PER."""
    if scheme == "none":
        return tags
    types = dict.fromkeys(tag[1:] for tag in tags if tag != "O")
    return tags + Counter(f"{prefix}{name}" for name in types for prefix in "BIES")


def _fault(tags: Sequence[str], scheme: str, *, repair: bool = False) -> DataError | None:
    """How tags break a scheme."""
    try:
        extract_spans(tags, scheme, repair=repair)
    except DataError as error:
        return error
    return None
