"""The sequence tagger: predicts a tag for each word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn.builders.readers._fields import parse_feature_columns
from graphattn.builders.tag_schemes import SCHEMES
from graphattn.exceptions import ConfigError, verbatim
from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.estimator import Estimator
from graphattn.models._estimators.loading import register_task
from graphattn.models._estimators.state import list_arguments, preset_option
from graphattn.models._estimators.tasks.tag import Tagging
from graphattn.models._estimators.text_classifier import Classes, WeightedOptions
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models._results.entities import TaggedText
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import ParsingOptions, option


@dataclass
class TaggerOptions(WeightedOptions):
    """Arguments of :class:`SequenceTagger` besides its groups of options."""

    preset: str = preset_option(Tagging.presets)
    scheme: str = option("auto", "scheme of entity tags", choices=("auto", *SCHEMES))
    repair_tags: bool = option(False, "read invalid tags as conlleval does, instead of rejecting them")
    feature_columns: tuple[str, ...] = option(
        (),
        "further columns of the corpus that are features of words, with names if you like: 1 or pos=1 (conll), "
        "upos,feats:Number (conllu, conllup), a field (sentences)",
    )

    @override
    def check(self) -> None:
        super().check()
        parse_feature_columns(self.feature_columns)


@register_task
class SequenceTagger(Classes):
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
    feature_columns : further columns of the corpus that are features of words, such as ``"upos"``, ``"1"``, or
        ``"pos=1"`` with a name: keys of ``Sentence.features``, or columns of lists next to ``tokens`` in tables and
        dictionaries. Their values are embedded, and features of the linear branch; texts to predict need them, too

    Examples
    --------
    >>> from graphattn.models import TrainingOptions
    >>> tagger = SequenceTagger(training=TrainingOptions(epochs=10, learning_rate=1e-3))
    >>> words, tags = [["a", "dog"], ["the", "cat"]] * 10, [["DET", "NOUN"]] * 20
    >>> tagger.fit(words, tags).predict([["the", "dog"]])
    [['DET', 'NOUN']]
    """

    task = Tagging
    task_: Tagging
    option_groups: ClassVar = {**Estimator.option_groups, "task": TaggerOptions}
    unused_options = frozenset(
        {"max_tokens_per_text", "strip_html", "pooling", "head_hidden", "pair_features", "join_pairs"}
    ) | {"frozen", "contrastive"}

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
        feature_columns: Sequence[str] = (),
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        warm_start: bool = False,
    ):
        super().__init__(**list_arguments(locals()))

    @property
    def scheme_(self) -> str:
        """The scheme of the tags; ``"none"`` if they mark no entities."""
        return self.task_.labels.scheme

    @override
    def predict(self, X: Iterable[Any]) -> list[list[str]]:
        """The tags of each input, in their order."""
        return PerText(super().predict(X))

    def predict_proba(self, X: Iterable[Any]) -> list[npt.NDArray[np.float32]]:
        """For each input (words, C) probabilities (marginals with a CRF), columns as in ``classes_``."""
        return PerText(self.predict_details(X, probabilities=True).probabilities or [])

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
        texts, labels = self.read_texts(X), self.task_.labels
        spans = labels.find_spans(self.text_inputs_, texts.columns[0], self.rerun(texts, rate=labels.rate_entities))
        return spans

    @override
    def _show_input(self, x: Any) -> Any:
        text = getattr(x, "text", x)
        return self.vocabulary_.split(text) if isinstance(text, str) else x


class PerText(list[Any]):
    """A list that NumPy keeps as one object for each text, as ``cross_val_predict`` needs it for joining folds."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.object_]:
        return np.fromiter(self, object, len(self))
