"""The translator: texts in, texts out; for translation, summarisation, and whatever else rewrites texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from graphattn.builders import Example, Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders.subwords import Subwords
from graphattn.builders.word_boundaries import Source
from graphattn.exceptions import ConfigError
from graphattn.models.corpus import digest_of
from graphattn.models.decoders.corpus import ParallelCorpus
from graphattn.models.decoders.embedding import SharedEmbedding
from graphattn.models.decoders.generation import generate
from graphattn.models.decoders.model import TranslationModel
from graphattn.models.decoders.options import (
    PRESETS,
    DecoderOptions,
    Preset,
    SearchOptions,
    SubwordOptions,
    TranslationTraining,
)
from graphattn.models.decoders.registry import make_decoder
from graphattn.models.decoders.sources import ParsingOptions, parsed_sources, warn_of_sources_without_arcs
from graphattn.models.encoders import ENCODERS, EncoderOptions, encoder_options, make_encoder
from graphattn.models.estimators.saved import SavedEstimator
from graphattn.models.estimators.text_pairs import (
    Pairs,
    pairs_of,
    refuse_bad_references,
    refuse_empty,
    refuse_long,
    sources_of,
    with_dev_set,
)
from graphattn.models.options import Options, require_multiple
from graphattn.models.saving import ModelFiles
from graphattn.models.training.text_metrics import References, text_metrics

if TYPE_CHECKING:
    from graphattn.models.inspection import Attention


@dataclass(frozen=True)
class Output:
    """A text that a translator wrote.

    Parameters
    ----------
    text : the text
    score : its log-probability, divided by its length to the power of the length penalty
    """

    text: str
    score: float


class Translator(SavedEstimator):
    """Write a text for each text: any encoder on the source's graph, and a Transformer's decoder.

    Sources are raw texts, lists of words, or :class:`~graphattn.builders.Sentence`, with heads for encoders that look
    along dependency arcs; or :class:`~graphattn.builders.Example` whose ``second`` is the target. Targets are texts.

    Parameters
    ----------
    encoder : name of an encoder, whose widths are then the preset's, or its options
    preset : ``"small"`` for one CPU core, ``"base"``, ``"deep"``, ``"big"``: widths, depths and training settings of
        what is not given
    inputs, decoder, training : options; None for those of the preset
    search, parsing : options that may still be changed when the model is trained

    Examples
    --------
    >>> from graphattn.models import Translator
    >>> Translator("transformer", preset="small").resolved_encoder().hidden
    256
    """

    task: ClassVar[str] = "translate"
    main_metric: ClassVar[str] = "bleu"
    model_: TranslationModel
    _warned = False
    """Whether somebody was told of sources without a parse: once is enough."""

    def __init__(
        self,
        encoder: str | EncoderOptions = "transformer",
        *,
        preset: str = "small",
        inputs: SubwordOptions | None = None,
        decoder: DecoderOptions | None = None,
        training: TranslationTraining | None = None,
        search: SearchOptions | None = None,
        parsing: ParsingOptions | None = None,
    ):
        sizes = _sizes(preset)
        self.encoder, self.preset = encoder, preset
        self.inputs = SubwordOptions() if inputs is None else inputs
        self.decoder = DecoderOptions(**sizes.decoder) if decoder is None else decoder
        self.training = TranslationTraining(**sizes.training) if training is None else training
        self.search = SearchOptions() if search is None else search
        self.parsing = ParsingOptions() if parsing is None else parsing

    def resolved_encoder(self) -> EncoderOptions:
        """Options of the encoder; a name stands for the preset's widths."""
        if isinstance(self.encoder, str) and self.encoder in ENCODERS:
            return ENCODERS[self.encoder][0].for_translation(_sizes(self.preset).encoder)
        return encoder_options(self.encoder)

    def set_params(self, **params: Any) -> Translator:
        """Change parameters, also those of parameters, as ``outer__inner``.

        With another preset, ``decoder`` and ``training`` become its own, unless they are not what the old preset says.

        Raises
        ------
        ValueError
            for a name that does not exist, as scikit-learn does
        ConfigError
            when there is no such preset
        """
        if "preset" in params:
            before, after = _sizes(self.preset), _sizes(params["preset"])
            if self.decoder == DecoderOptions(**before.decoder):
                self.decoder = DecoderOptions(**after.decoder)
            if self.training == TranslationTraining(**before.training):
                self.training = TranslationTraining(**after.training)
        return super().set_params(**params)

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[str] | None = None,
        *,
        dev: tuple[Sequence[Any], References] | Sequence[Example] | None = None,
    ) -> Translator:
        """Train on sources and targets; a fit that fails before its first epoch is finished changes nothing.

        Parameters
        ----------
        X : the sources, or examples that hold both
        y : a target for each source
        dev : (sources, targets), or examples, by which the best epoch is chosen; a target may be several texts that
            are as good. When None, a share of the training set (``training.dev_fraction``) is held out

        Raises
        ------
        DataError
            when sources or targets are not as they must be; texts are counted from 1, as lines are
        ConfigError
            when options are impossible, or a library is not installed
        TrainingError
            when the loss is no longer finite
        """
        with self._rollback_on_failure():
            self._resolve_options()
            self._warned = False
            pairs = Pairs(*pairs_of(X, y))
            refuse_empty(pairs.sources, pairs.targets)
            measured = list(text_metrics([""], [""]))  # a missing library is better missed now than after an epoch
            pairs, held_out = with_dev_set(pairs, dev, self.training_)
            metric = self.training_.dev_metric(measured, self.main_metric, dev_set=held_out is not None)
            self.subwords_ = Subwords.train(
                [*pairs.sources, *pairs.targets],
                size=self.inputs_.vocabulary_size,
                split=self.inputs_.split,
                lowercase=self.inputs_.lowercase,
            )
            with torch.random.fork_rng():
                torch.manual_seed(self.training_.seed)
                self.model_ = self._make_model()
            self._train(pairs, held_out, metric)
        return self

    def check(self) -> None:
        """Refuse impossible options.

        Raises
        ------
        ConfigError
            naming the option and the way out
        """
        encoder = self.resolved_encoder()
        for name, kind in GROUPS.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; give {kind.__name__}(...)")
            getattr(self, name).validate()
        encoder.validate()
        require_multiple("hidden", encoder.hidden, self.decoder.decoder_heads, "decoder_heads")

    def _resolve_options(self) -> None:
        """Check the options and copy them: ``set_params`` must not reach into a fitted model."""
        self.check()
        self.encoder_, self.inputs_ = self.resolved_encoder().copied(), self.inputs.copied()
        self.decoder_, self.training_ = self.decoder.copied(), self.training.copied()

    def non_default_options(self) -> dict[str, Any]:
        """Name -> value of what a fitted translator was told besides: the preset, and what is not as it says.

        Raises
        ------
        NotFittedError
            when it is not fitted
        """
        return {"preset": self.preset, **super().non_default_options()}

    def _unchanged(self) -> Translator:
        return Translator(self.encoder_.name, preset=self.preset)

    def _make_model(self) -> TranslationModel:
        hidden, streams = self.encoder_.hidden, self.encoder_.streams
        self.encoder_ = self.encoder_.for_parts([hidden] * streams)
        encoder = make_encoder(self.encoder_)
        self.builder_ = TextGraphBuilder(encoder.relations(), vocabulary=self.subwords_.vocabulary)
        decoder, output = make_decoder(encoder, self.encoder_, self.decoder_)
        width = hidden * streams
        return TranslationModel(
            SharedEmbedding(len(self.subwords_.vocabulary), width, self.inputs_.embedding_dropout),
            encoder,
            decoder,
            output,
            label_smoothing=self.training_.label_smoothing,
        )

    def _train(self, pairs: Pairs, held_out: Pairs | None, metric: str) -> None:
        from graphattn.models.training.loop import train  # Lightning takes seconds to load, and only training needs it

        corpus = self._corpus(pairs.sources, pairs.targets, pairs.places)
        dev = evaluate = references = None
        if held_out is not None:
            references = held_out.targets if held_out.places is None else None
            apart = "dev " if held_out.places is None else ""  # held out of the training set, or a set of its own
            dev = self._corpus(held_out.sources, places=held_out.places, part=apart)
            evaluate = partial(text_metrics, held_out.targets)
        greedy = replace(self.search, beam=1, sample=False)
        self.history_: list[dict[str, float]] = []
        train(
            self.model_,
            corpus,
            self.training_,
            dev=dev,
            evaluate=evaluate,
            decide=partial(_texts, subwords=self.subwords_, search=greedy),
            metric=metric,
            about={**self._about(), "references": None if references is None else digest_of(repr(references))},
            history=self.history_,
        )

    def _about(self) -> dict[str, Any]:
        """What makes a run this run, beside training options and data."""
        groups = {"encoder": self.encoder_, "inputs": self.inputs_, "decoder": self.decoder_}
        plain = {f"{group}.{name}": v for group, options in groups.items() for name, v in options.to_dict().items()}
        return {"task": self.task, **plain}

    def _corpus(
        self,
        sources: Sequence[Source],
        targets: Sequence[str] | None = None,
        places: Sequence[int] | None = None,
        part: str = "",
    ) -> ParallelCorpus:
        ids = None if targets is None else self.subwords_.ids(targets)
        for name, texts in (("source", self.subwords_.ids(sources)), ("target", ids or [])):  # before they are parsed
            refuse_long(part + name, map(len, texts), self.inputs.longest, places)
        return ParallelCorpus.of(self.builder_, self._sentences(sources), ids)

    def _sentences(self, sources: Sequence[Source]) -> list[Sentence]:
        """Sources in marked words, with the arcs that the encoder looks along."""
        if self.builder_.deprel_id is None:
            return self.subwords_.sources(sources)
        sentences, lacking = parsed_sources(sources, self.subwords_, self.parsing.made())
        if lacking and not self._warned:
            self._warned = True
            warn_of_sources_without_arcs(lacking, len(sources))
        return sentences

    # -- using ---------------------------------------------------------------------------------------------------------

    def outputs(self, X: Iterable[Any], *, count: int = 1, first: int = 1) -> list[list[Output]]:
        """The best texts for each source, best first.

        Parameters
        ----------
        X : the sources
        count : how many for each; the beam is at least as wide
        first : number of the first source, in errors and for samples, when these are a part of more

        Raises
        ------
        ConfigError
            when ``count`` is below 1, or ``search`` is impossible
        DataError
            when a source has more sub-words than ``inputs.longest``
        """
        self._check_fitted()
        if not isinstance(count, int) or count < 1:
            raise ConfigError(f"count is {count!r}; it must be at least 1")
        if not isinstance(self.search, SearchOptions):
            raise ConfigError(f"search is a {type(self.search).__name__}; give SearchOptions(...)")
        sources = sources_of(X)
        corpus = self._corpus(sources, places=range(first - 1, first - 1 + len(sources)))
        self.search.validate()
        return [
            [Output(self.subwords_.text(own.ids), own.score) for own in hypotheses]
            for hypotheses in generate(self.model_, corpus, self.search, count=count, first=first)
        ]

    def predict(self, X: Iterable[Any]) -> list[str]:
        """A text for each source, in their order; an empty one for a source without words."""
        return [outputs[0].text for outputs in self.outputs(X)]

    def evaluate(self, X: Iterable[Any], y: References | None = None) -> dict[str, float]:
        """BLEU, chrF and ROUGE in percent, see :func:`~graphattn.models.training.text_metrics.text_metrics`.

        Parameters
        ----------
        X, y : as for :meth:`fit`; a target may be several texts that are as good

        Raises
        ------
        DataError
            when there is nothing to evaluate on, or a target is no text
        """
        self._check_fitted()
        sources, references = pairs_of(X, y)
        refuse_bad_references(references)
        return text_metrics(references, self.predict(sources))

    def score(self, X: Iterable[Any], y: References | None = None) -> float:
        """BLEU as a share of one."""
        return self.evaluate(X, y)[self.main_metric] / 100

    def attention(self, x: Any, target: str | None = None) -> Attention:
        """Translate one source and show the weights that made the translation: the encoder's, and the decoder's on it.

        The decoder's layers count on from the encoder's; their relation is called ``cross``, and leads from the part
        ``source`` to the part ``target``, whose position 0 is the border that ends the text.

        Parameters
        ----------
        x : one source
        target : show how this text would be written instead of what the search finds

        Raises
        ------
        DataError
            when the source has no words
        """
        from graphattn.models.inspection.written import look_at_writing  # loads networkx and pandas

        self._check_fitted()
        return look_at_writing(self, x, target)

    # -- saving --------------------------------------------------------------------------------------------------------

    def _files(self, notes: Mapping[str, str]) -> ModelFiles:
        config = {
            "task": self.task,
            "preset": self.preset,
            "encoder": self.encoder_.to_dict(),
            "inputs": self.inputs_.to_dict(),
            "decoder": self.decoder_.to_dict(),
            "training": {**self.training_.to_dict(), "run_dir": None},  # a place on one machine
            "search": self.search.to_dict(),
            "parsing": self.parsing.to_dict(),
            "history": self.history_,
        }
        return ModelFiles(config, [], self.subwords_.vocabulary.to_json(), self._state(), notes)

    @classmethod
    def _from_files(cls, files: ModelFiles) -> Translator:
        config = files.config
        groups: dict[str, Any] = {name: kind.from_dict(config[name]) for name, kind in GROUPS.items()}
        estimator = cls(encoder_options(config["encoder"]), preset=config["preset"], **groups)
        estimator._resolve_options()
        vocabulary = Vocabulary.from_json(files.tokenizer)
        rows = len(files.weights["embedding.trained"])
        if len(vocabulary) != rows:
            raise ConfigError(f"the vocabulary has {len(vocabulary)} entries, the model {rows}")
        estimator.subwords_ = Subwords(vocabulary, estimator.inputs_.split)
        estimator.history_ = config["history"]
        with torch.random.fork_rng():
            estimator.model_ = estimator._make_model()
        estimator.model_.load_state_dict(files.weights)
        estimator.model_.eval()
        return estimator


GROUPS: dict[str, type[Options]] = {
    "inputs": SubwordOptions,
    "decoder": DecoderOptions,
    "training": TranslationTraining,
    "search": SearchOptions,
    "parsing": ParsingOptions,
}
"""The estimator's groups of options."""


def _sizes(preset: str) -> Preset:
    if preset not in PRESETS:
        raise ConfigError(f"{{preset}} is {preset!r}; choose one of: {', '.join(PRESETS)}", options=("preset",))
    return PRESETS[preset]


def _texts(model: TranslationModel, corpus: ParallelCorpus, *, subwords: Subwords, search: SearchOptions) -> list[str]:
    return [subwords.text(found[0].ids) for found in generate(model, corpus, search)]
