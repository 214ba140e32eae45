"""The translator: generates a text from a text, for translation, summarisation and the like."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from graphattn.builders import Example, Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders.files import TextLines, is_store, open_text, split_suffix
from graphattn.builders.foreign import reject_markup
from graphattn.builders.parsers import make_parser
from graphattn.builders.pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders.readers.rows import Skip, raise_or_skip
from graphattn.builders.subwords import Subwords, join_pieces
from graphattn.builders.vocabulary import Ids
from graphattn.builders.word_boundaries import Source
from graphattn.exceptions import ConfigError, DataError, Hint
from graphattn.models.corpus import Batch, Corpus, ParallelCorpus, digest_of
from graphattn.models.decoders import make_decoder
from graphattn.models.decoders.generation import generate
from graphattn.models.decoders.model import PretrainedEmbedding, SharedEmbedding, TranslationModel, shift_right
from graphattn.models.decoders.options import (
    PRESETS,
    DecoderOptions,
    Preset,
    SearchOptions,
    SubwordOptions,
    TranslationTraining,
)
from graphattn.models.encoders import (
    EncoderOptions,
    NoEncoderOptions,
    encoder_options,
    make_encoder,
)
from graphattn.models.estimators.base import Estimator
from graphattn.models.estimators.inputs import Columns, as_list, input_fields, single_column
from graphattn.models.estimators.parsing import add_heads, make_roots, warn_about_missing_parses
from graphattn.models.estimators.prediction import prediction_batches
from graphattn.models.estimators.task import EncodedInputs, Examples
from graphattn.models.estimators.warm_start import check_same_kind
from graphattn.models.pretrained.architecture import Architecture
from graphattn.models.pretrained.checkpoint import find_transformer, read_architecture, read_vocabulary
from graphattn.models.pretrained.options import PretrainedOptions, pretrained_options
from graphattn.models.pretrained.stack import find_pretrained, learning_rates, make_pretrained, stack_encoders
from graphattn.models.reports import Report
from graphattn.models.saving import ModelFiles, number_epochs, register_task
from graphattn.models.text_model import in_evaluation
from graphattn.models.training.text_metrics import (
    are_short,
    bleu_interval,
    choose_tokenizer,
    compare_systems,
    signatures,
    text_metrics,
)
from graphattn.options import Options, ParsingOptions, option
from graphattn.validation import require_multiple, require_range

if TYPE_CHECKING:
    import pandas as pd

    from graphattn.models.inspection.attributions.targets import ExplanationTarget
    from graphattn.models.inspection.capture import ForwardCapture

_TABLES = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_NAMED_COLUMNS = (".csv", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class Output:
    """A generated text; its score is the log-probability, divided by its length to the power of the length penalty."""

    text: str
    score: float


@dataclass
class ParallelFileOptions(Options):
    """Corpora besides the training set."""

    init_from: str | None = option(None, "trained model to continue from, with its options and sub-words", common=True)
    dev: tuple[str, ...] = option(
        (), "dev set that chooses the best epoch, SOURCE,TARGET or one table of both", common=True
    )
    test: tuple[str, ...] = option(
        (), "test set, evaluated once at the end, SOURCE,TARGET or one table of both", common=True
    )


@dataclass
class TranslatorOptions(Options):
    """Arguments of :class:`Translator` besides its groups of options."""

    preset: str = option("small", "sizes and training settings", choices=tuple(PRESETS), common=True)


@register_task
class Translator(Estimator):
    """Generate a text for each text, with any encoder on the source's graph and a Transformer decoder.

    Sources and targets share their sub-words and the vectors of these, unless a pretrained model reads the sources.
    Sources are raw texts, lists of words, or :class:`~graphattn.builders.Sentence`, with heads for encoders that use
    dependency arcs; or :class:`~graphattn.builders.Example` with the target as ``second``. Targets are texts.

    Parameters
    ----------
    encoder : name of an encoder, whose sizes are then the preset's, or its options; when None, a Transformer, or with
        ``pretrained`` no other encoder
    preset : ``"small"`` for one CPU core, ``"base"``, ``"deep"`` or ``"big"``: defaults for all options that are None
    inputs, decoder, training : options; None for those of the preset
    search, parsing : options that may still change after training
    pretrained : a Hugging Face directory or a name on the hub, or options with it: its states, with another encoder on
        top or none, are the decoder's memory
    warm_start : whether ``fit`` continues from the fitted model, if there is one

    Examples
    --------
    >>> from graphattn.models import Translator
    >>> Translator("transformer", preset="small").resolved_encoder().hidden
    256
    """

    task = corpus_kind = "translate"
    description = "writes texts"
    main_metric = "bleu"
    option_groups: ClassVar[Mapping[str, type[Options]]] = {
        "files": ParallelFileOptions,
        "task": TranslatorOptions,
        "inputs": SubwordOptions,
        "encoder": EncoderOptions,
        "decoder": DecoderOptions,
        "training": TranslationTraining,
        "search": SearchOptions,
        "parsing": ParsingOptions,
        "pretrained": PretrainedOptions,
    }
    unused_options = frozenset({"join_pairs"})
    late_options = frozenset({"search", "parsing"})
    prediction_options = frozenset({"n_best", "search", "longest", "plain", "compare", "bleu_tokenizer"})
    source_and_target_files = True
    weighted_metrics = False
    dev_search = "greedy search"
    training: TranslationTraining
    inputs_: SubwordOptions
    decoder_: DecoderOptions
    pretrained_: PretrainedOptions
    model_: TranslationModel
    subwords_: Subwords
    builder_: TextGraphBuilder
    _vectors: npt.NDArray[np.float32]
    """(V, D) word vectors of the sub-words, until the model is made."""
    architecture_: Architecture | None = None
    """Of the pretrained model."""
    source_vocabulary_: PretrainedVocabulary | None = None
    """Of the pretrained model; without one, sources have the sub-words of targets."""
    _transient = ("_vectors", "_pretrained_folder")
    _warned = False
    """Whether this fit has warned about sources without a parse."""

    def __init__(
        self,
        encoder: str | EncoderOptions | None = None,
        *,
        preset: str = "small",
        inputs: SubwordOptions | None = None,
        decoder: DecoderOptions | None = None,
        training: TranslationTraining | None = None,
        search: SearchOptions | None = None,
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        warm_start: bool = False,
    ):
        self.encoder, self.preset = encoder, preset
        self.inputs = SubwordOptions() if inputs is None else inputs
        self.decoder = DecoderOptions() if decoder is None else decoder
        self.training = TranslationTraining() if training is None else training
        self.search = SearchOptions() if search is None else search
        self.parsing = ParsingOptions() if parsing is None else parsing
        self.pretrained = pretrained_options(pretrained)
        self.warm_start = warm_start

    # -- options -------------------------------------------------------------------------------------------------------

    @classmethod
    @override
    def default_encoder(cls, pretrained: str | None) -> str:
        return NoEncoderOptions.name if pretrained else "transformer"

    @classmethod
    @override
    def encoder_defaults(cls, options: type[EncoderOptions], preset: str) -> EncoderOptions:
        return options.for_translation(_find_preset(preset).encoder)

    @classmethod
    @override
    def option_defaults(cls, preset: str, pretrained: str | None) -> Mapping[str, Mapping[str, Any]]:
        sizes = _find_preset(preset)
        return {"decoder": sizes.decoder, "training": sizes.training}

    @override
    def validate(self) -> None:
        super().validate()
        if self.inputs.vectors is not None and self.resolved_encoder().streams == 1:
            raise ConfigError(
                f"{{vectors}} are for the second embedding of duo-transformer; {self.resolved_encoder().name} has one",
                options=("vectors", "encoder"),
            )
        if self.pretrained.pretrained is not None and self.resolved_encoder().streams > 1:
            raise ConfigError(
                f"{{encoder={self.resolved_encoder().name}}} has two embeddings of its own; "
                "choose another {encoder}, or leave out {pretrained}",
                options=("encoder", "pretrained"),
            )
        if self.resolved_encoder().name == NoEncoderOptions.name and self.pretrained.pretrained is None:
            raise ConfigError(
                "{encoder=pretrained} needs {pretrained}: a Hugging Face directory, or OWNER/NAME on the hub",
                options=("encoder", "pretrained"),
            )
        heads = self.resolved_options()["decoder"].decoder_heads
        require_multiple("hidden", self.resolved_encoder().hidden, heads, "decoder_heads")

    @override
    def non_default_options(self) -> dict[str, Any]:
        return {"preset": self.preset, **super().non_default_options()}

    @override
    def _with_defaults(self) -> Self:
        return type(self)(self.encoder_.name, preset=self.preset, pretrained=self.pretrained_.pretrained)

    # -- reading and writing -------------------------------------------------------------------------------------------

    @override
    def read(self, paths: Sequence[str | Path], *, format: str = "auto", **options: Any) -> tuple[Any, Any]:
        """Read sources and targets.

        Parameters
        ----------
        paths : a file or a store of sources and a file of targets, also as one text with a comma between them; or one
            CSV, TSV or JSON Lines file with both. A file without a header has a source and its target on each line,
            with a tab or ``|||`` between them
        format, options : ``text`` and ``second``, the columns of sources and targets in a table; ``header`` of a file
            with other columns, see :func:`~graphattn.builders.readers.read_labelled_lines`; ``skip``, see
            :func:`~graphattn.builders.readers.read_parallel`
        """
        if len(paths) == 1 and not os.path.exists(paths[0]):
            paths = str(paths[0]).split(",")
        files = [Path(path) for path in paths]
        if len(files) == 2:
            return _read_two_files(files[0], files[1], options.get("skip"))
        if len(files) != 1:
            hint = "Give sources and targets, or one table of both."
            raise DataError(f"{len(files)} paths are given: {', '.join(map(str, files))}", hint=hint)
        columns = options.get("text", "text"), options.get("second", "second")
        return _read_table(files[0], *columns, options.get("skip"), header=options.get("header"))

    @override
    def format_row(self, x: Any, prediction: Any, probabilities: Any = None) -> dict[str, Any]:
        outputs = [prediction] if isinstance(prediction, Output) else prediction
        rows = [{"text": output.text, "score": round(output.score, 6)} for output in outputs]
        source = x.text if isinstance(x, Example) else x
        return {**input_fields(source), "outputs": rows}

    # -- fitting -------------------------------------------------------------------------------------------------------

    @override
    def _columns(self, X: Iterable[Any]) -> Columns:
        return [list(column) for column in single_column(X)]

    @override
    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        if y is None:
            bare = next((n for n, item in enumerate(X, 1) if getattr(item, "second", None) is None), None)
            if bare is not None:
                raise DataError(f"source {bare} has no target", hint="Give y, or examples with both texts.")
            return [item.second for item in X]
        targets: list[Any] = as_list(y)
        if len(targets) != len(X):
            raise DataError(f"{len(X)} sources but {len(targets)} targets", hint="Give one for each.")
        return targets

    @override
    def _normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        for number, target in enumerate(labels, 1):
            if isinstance(target, (list, tuple)) and not target:
                raise DataError(f"target {number} is an empty list", hint="Give a text, or a list of references.")
        return labels

    @override
    def _fit_labels(self, examples: Examples) -> None:
        for number, (source, target) in enumerate(zip(examples.columns[0], examples.labels, strict=True), 1):
            for name, text in (("source", source), ("target", target)):
                if not (text.strip() if isinstance(text, str) else text):
                    raise DataError(f"{name} {number} is empty", hint="Delete the pair, or complete it.")

    @override
    def _fit_vocabulary(self, examples: Examples) -> None:
        self._warned = False
        check_same_kind(self.pretrained_, self._previous)
        if self._previous is not None:
            self.subwords_ = self._previous.subwords_
            self.architecture_ = self._previous.architecture_
            self.source_vocabulary_ = self._previous.source_vocabulary_
            if self.inputs_.vectors is not None:  # _copy_model copies them
                embedding: Any = self._previous.model_.embedding
                self._vectors = embedding.pretrained.detach().numpy()
            return
        self.architecture_ = self.source_vocabulary_ = None
        texts = [*examples.columns[0], *examples.labels]
        if self.pretrained_.pretrained is not None:
            self._pretrained_folder = find_transformer(self.pretrained_.pretrained)
            self.architecture_ = read_architecture(self._pretrained_folder)
            self.source_vocabulary_ = read_vocabulary(self._pretrained_folder, self.architecture_)
            texts = list(examples.labels)
        self.subwords_ = Subwords.train(
            texts,
            size=self.inputs_.vocabulary_size,
            split=self.inputs_.split,
            lowercase=self.inputs_.lowercase,
        )
        if self.inputs_.vectors is not None:
            self._vectors = self.subwords_.look_up(self.inputs_.vectors, seed=self.training_.seed)

    @override
    def _make_model(self, weights: Tensor | None = None) -> TranslationModel:
        if self.architecture_ is not None:
            return self._make_pretrained_model(self.architecture_)
        hidden, streams = self.encoder_.hidden, self.encoder_.streams
        self.encoder_ = self.encoder_.for_parts(self._part_widths())
        encoder = make_encoder(self.encoder_)
        cls = bool(self.inputs_.cls)
        self.builder_ = TextGraphBuilder(encoder.relations(), cls=cls, vocabulary=self.subwords_.vocabulary)
        decoder, output = make_decoder(encoder, self.encoder_, self.decoder_)
        return TranslationModel(
            self._make_embedding(hidden, streams),
            encoder,
            decoder,
            output,
            label_smoothing=self.training_.label_smoothing,
        )

    @override
    def _part_widths(self) -> Sequence[int]:
        if self.architecture_ is None:
            return [self.encoder_.hidden] * self.encoder_.streams
        return [self.architecture_.hidden]

    def _make_pretrained_model(self, architecture: Architecture) -> TranslationModel:
        """A model with a pretrained encoder, which is read from its directory unless it was saved."""
        lower = make_pretrained(self.pretrained_, architecture, getattr(self, "_pretrained_folder", None))
        sources, lower.embedding = lower.embedding, None
        self.encoder_ = self.encoder_.for_parts(self._part_widths())
        encoder = stack_encoders(lower, self.encoder_, [lower.width], self.inputs_.embedding_dropout)
        self.builder_ = TextGraphBuilder(encoder.relations(), vocabulary=self.source_vocabulary_)
        decoder, output = make_decoder(encoder, self.encoder_, self.decoder_)
        embedding = SharedEmbedding(
            len(self.subwords_.vocabulary), self.encoder_.hidden, self.inputs_.embedding_dropout
        )
        model = TranslationModel(
            embedding, encoder, decoder, output, sources=sources, label_smoothing=self.training_.label_smoothing
        )
        model.learning_rates = learning_rates(self.pretrained_, encoder, embedding="sources")
        return model

    def _make_embedding(self, hidden: int, streams: int) -> SharedEmbedding:
        """The embedding, with word vectors of a file or, for a trained model, of any numbers."""
        count, rate = len(self.subwords_.vocabulary), self.inputs_.embedding_dropout
        if self.inputs_.vectors is None:
            return SharedEmbedding(count, hidden * streams, rate)
        return PretrainedEmbedding(count, hidden, rate, torch.from_numpy(self._vectors))

    @override
    def _dev_corpus(self, held_out: Examples) -> Corpus:
        return self._corpus(held_out.columns, where="dev set", numbers=held_out.numbers)

    @override
    def _fingerprint(self, held_out: Examples | None) -> dict[str, Any]:
        references = None
        if held_out is not None and held_out.numbers is None:  # otherwise they are part of the training set
            references = digest_of(repr(held_out.labels))
        return {**super()._fingerprint(held_out), "references": references}

    @override
    def _corpus(
        self,
        columns: Columns,
        labels: Sequence[Any] | None = None,
        *,
        where: str = "data",
        numbers: Sequence[int] | None = None,
    ) -> ParallelCorpus:
        (sources,) = columns
        ids = None if labels is None else self.subwords_.ids(labels)
        dev = (
            "dev " if where == "dev set" and numbers is None else ""
        )  # held-out texts have numbers of the training set
        source_ids = self._source_ids(sources)
        for name, texts in (("source", source_ids), ("target", ids or [])):  # parsing may take hours
            _check_lengths(dev + name, map(len, texts), self.inputs.longest, numbers)
        lower = find_pretrained(self.model_.encoder)
        if lower is not None:
            lengths = np.array([*map(len, source_ids)], np.int64) + self.builder_.count_special_tokens(1)
            options = ("pretrained_length", "pretrained_heads")
            lower.check_lengths(lengths, numbers, where="dev set" if dev else "", options=options)
        sentences = self._sentences(sources)
        self._check_relations([sentences], where)
        return ParallelCorpus.of(self.builder_, sentences, ids)

    def _source_ids(self, sources: Sequence[Source]) -> list[Ids]:
        if self.source_vocabulary_ is None:
            return self.subwords_.ids(sources)
        return self.source_vocabulary_.encode_batch(sources)[1]

    def _sentences(self, sources: Sequence[Source]) -> Sequence[Source]:
        """Sources as their tokenizer reads them, with heads if the encoder uses dependency arcs."""
        if self.builder_.deprel_id is None:
            return self.subwords_.sources(sources) if self.source_vocabulary_ is None else sources
        sentences, missing = make_roots(self._parse(sources))
        if missing and not self._warned:
            self._warned = True
            warn_about_missing_parses(missing, len(sources))
        return sentences

    def _parse(self, sources: Sequence[Source]) -> list[Sentence]:
        """Sources as sentences, with the parser's heads if the encoder uses dependency arcs and there is a parser."""
        vocabulary = self.source_vocabulary_
        splitter = self.subwords_.splitter if vocabulary is None else vocabulary.splitter
        sentences = self.subwords_.sources(sources) if vocabulary is None else splitter.sentences(sources)
        parser = None if self.builder_.deprel_id is None else make_parser(self.parsing)
        return sentences if parser is None else add_heads(sentences, sources, splitter, parser)

    @override
    def _predict_corpus(self, model: TranslationModel, corpus: Corpus) -> list[str]:
        """Greedy outputs for the dev set, which take a fraction of the time of a beam search."""
        assert isinstance(corpus, ParallelCorpus)
        greedy = replace(self.search, beam=1, sample=False)
        generated = generate(model, corpus, greedy, self.subwords_.vocabulary)
        return [self.subwords_.text(hypotheses[0].ids) for hypotheses in generated]

    @override
    def _predict_columns(self, columns: Columns) -> list[str]:
        return self.predict(columns[0])

    @override
    def _hint_at_predictions(self, labels: Sequence[Any], decisions: list[Any]) -> Hint | None:
        from graphattn.models.training.hints import hint_at_empty_texts

        return hint_at_empty_texts(decisions)

    @override
    def _metrics(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        return text_metrics(labels, decisions, tokenizer=self.training.bleu_tokenizer)

    @override
    def _metric_names(self) -> Sequence[str]:
        return list(self._metrics([""], [""]))  # raises before training if a library is missing

    @override
    def _evaluation_set(self, *arguments: Any, **options: Any) -> Examples:
        self._metric_names()  # raises before texts are generated if a library is missing
        return super()._evaluation_set(*arguments, **options)

    @override
    def _choose_dev_metric(self, labels: Sequence[Any]) -> str | None:
        from graphattn.models.training.hints import hint_at_short_references, hint_at_tokenizer

        metric, tokenizer = self.training_.metric, self.training.bleu_tokenizer
        if tokenizer == "auto" and (chosen := choose_tokenizer(labels)) != "13a":
            warnings.warn(hint_at_tokenizer(chosen), stacklevel=3)
        if metric is None:
            useful = not are_short(labels, tokenizer=tokenizer)
        else:
            perfect = [label if isinstance(label, str) else label[0] for label in labels]
            useful = self._metrics(labels, perfect).get(metric) != 0
        if useful:
            return metric
        warnings.warn(hint_at_short_references(metric or self.main_metric), stacklevel=3)
        return "chrf"

    # -- using ---------------------------------------------------------------------------------------------------------

    def outputs(self, X: Iterable[Any], *, count: int = 1, first: int = 1) -> list[list[Output]]:
        """The best texts for each source, best first.

        Parameters
        ----------
        X : the sources
        count : number of texts for each; the beam is at least as wide
        first : number of the first source if ``X`` is part of a larger corpus; errors and samples use it

        Raises
        ------
        ConfigError
            for a ``count`` below 1, or invalid ``search``
        DataError
            for a source of more subwords than ``inputs.longest``
        """
        self._check_fitted()
        require_range("count", count, min=1)
        self.search.validate()
        columns = self._columns(X)
        corpus = self._corpus(columns, numbers=range(first - 1, first - 1 + len(columns[0])))
        generated = generate(self.model_, corpus, self.search, self.subwords_.vocabulary, count=count, first=first)
        return [
            [Output(self.subwords_.text(hypothesis.ids), hypothesis.score) for hypothesis in hypotheses]
            for hypotheses in generated
        ]

    def perplexity(self, X: Iterable[Any], y: Iterable[Any] | None = None) -> float:
        """How many subwords the model hesitates between: the exponential of their mean negative log-probability.

        Parameters
        ----------
        X : sources
        y : one target for each; None if the inputs contain them. The end of a target counts as a subword
        """
        self._check_fitted()
        X = as_list(X)
        model, corpus = self.model_, self._corpus(self._columns(X), self._labels(X, y))
        total, count = 0.0, 0
        with in_evaluation(model), torch.inference_mode():
            for numbers in prediction_batches(corpus):
                batch = corpus[numbers]
                assert batch.targets is not None
                scores = model(batch)
                total += float(F.cross_entropy(scores, batch.targets.to(scores.device), reduction="sum"))
                count += len(batch.targets)
        return math.exp(total / count)

    @override
    def predict(self, X: Iterable[Any]) -> list[str]:
        """A text for each source; an empty one for a source without words."""
        return [outputs[0].text for outputs in self.outputs(X)]

    @override
    def predict_rows(
        self, X: Sequence[Any], *, first: int = 1, n_best: int = 1, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        X = as_list(X)
        outputs = self.outputs(X, count=n_best, first=first)
        return [self.format_row(*row) for row in zip(X, outputs, strict=True)]

    @override
    def report(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        unknown: str = "wrong",
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> Report:
        examples = self._evaluation_set(X, y, unknown)
        references, texts = examples.labels, self.predict(examples.columns[0])
        report: dict[str, Any] = self._metrics(references, texts)
        tokenizer = self.training.bleu_tokenizer
        report["signatures"] = signatures(references, texts, tokenizer=tokenizer)
        if others:
            report["compared"] = compare_systems(references, {"model": texts, **others}, tokenizer=tokenizer)
        interval = bleu_interval(references, texts, tokenizer=tokenizer)
        return Report(report, self.main_metric, interval=interval)

    @override
    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> EncodedInputs:
        self._check_fitted()
        (sources,) = self._columns(X)
        outputs = self.predict(sources) if targets is None else list(targets)
        if len(outputs) != len(sources):
            raise DataError(f"{len(sources)} sources but {len(outputs)} targets", hint="Give one for each.")
        sentences = {"source": self._split_sources(sources), "target": self._split_targets(outputs)}
        return EncodedInputs(self._corpus([sources], outputs), sentences, outputs)

    @override
    def encode_input(self, x: Any, *, target: str | None = None) -> EncodedInputs:
        inputs = super().encode_input(x, target=target)
        if not inputs.single["source"].tokens:
            raise DataError("the source has no words, so there is no attention", hint="Give a text.")
        return inputs

    def _split_sources(self, sources: Sequence[Source]) -> list[Sentence]:
        vocabulary = self.source_vocabulary_
        if vocabulary is None:
            return self.subwords_.vocabulary.sentences(self._parse(sources))
        parsed = sources if self.builder_.deprel_id is None else self._parse(sources)
        return [vocabulary.add_special_tokens([sentence]) for sentence in vocabulary.sentences(parsed)]

    def _split_targets(self, texts: Sequence[Source]) -> list[Sentence]:
        return self.subwords_.vocabulary.sentences(self.subwords_.sources(texts))

    @override
    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        from graphattn.models.inspection.capture import capture_decoding

        return capture_decoding(self.model_, batch)

    @override
    def target(
        self, inputs: EncodedInputs, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        from graphattn.models.inspection.attributions.targets import select_text

        if label is not None:
            raise ConfigError("{label} is a class; a translator needs a {target}", options=("label", "target"))
        assert inputs.batch.targets is not None
        return select_text(inputs.batch.targets, inputs.single["target"], word)

    @override
    def _describe_prediction(self, inputs: EncodedInputs, scores: Tensor) -> tuple[str, Any, Any]:
        assert inputs.batch.targets is not None
        targets = inputs.batch.targets.to(scores.device).unsqueeze(1)
        probability = float(scores.log_softmax(1).gather(1, targets).sum().exp())
        words = inputs.single["source"].words
        title = join_pieces(words) if self.source_vocabulary_ is None else " ".join(words)
        return title, inputs.outputs[0], {inputs.outputs[0]: probability}

    @override
    def _copy_scores(
        self,
        batch: Batch,
        *,
        vectors: Tensor | None = None,
        presence: Tensor | None = None,
        hidden: pd.DataFrame | None = None,
    ) -> Tensor:
        assert batch.targets is not None and batch.target_counts is not None
        model, length = self.model_, int(batch.target_counts[0])
        memory = model.encode(batch) if vectors is None else model.encode_vectors(batch.graph, vectors)
        state = model.decoder.start(memory)
        if hidden is not None and len(hidden):
            state.mask = state.mask.repeat(1, 1, length, 1)  # (B, 1, T, S)
            # position 0 of the target is its end, which comes last
            rows = (torch.tensor(hidden.target.to_numpy()) - 1) % length
            copies, sources = (torch.tensor(hidden[name].to_numpy()) for name in ("copy", "source"))
            state.mask[copies, 0, rows, sources] = False
        return model.advance(shift_right(batch.targets.to(model.device), batch.target_counts.to(model.device)), state)

    @override
    def count_tokens(self, text: str) -> int:
        return self.builder_.cls + self.builder_.count_special_tokens(1) + len(self._source_ids([text])[0])

    # -- saving --------------------------------------------------------------------------------------------------------

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        types: dict[str, Any] = {"architecture": Architecture | None, "pretrained": PretrainedOptions | None}
        return {**super().config_types(), "preset": str, **types}

    @override
    def _files(self, notes: Mapping[str, str]) -> ModelFiles:
        config = {
            **self._serialize_options(),
            "preset": self.preset,
            "architecture": None if self.architecture_ is None else self.architecture_.to_dict(),
        }
        sources = None if self.source_vocabulary_ is None else self.source_vocabulary_.to_json()
        return ModelFiles(config, [], self.subwords_.vocabulary.to_json(), self._state(), notes, sources)

    @override
    @classmethod
    def _from_files(cls, files: ModelFiles) -> Self:
        config = files.config
        groups: dict[str, Any] = {name: kind.from_dict(config.get(name) or {}) for name, kind in cls._parts().items()}
        estimator = cls(encoder_options(config["encoder"]), preset=config["preset"], **groups)
        estimator._resolve_options()
        estimator._forget_unset(config.get("set_options"))
        vocabulary = Vocabulary.from_json(files.tokenizer)
        estimator.subwords_ = Subwords(vocabulary, estimator.inputs_.split)
        estimator.history_, estimator.deprels_ = number_epochs(config["history"]), config.get("deprels")
        if config.get("architecture") is not None:
            assert files.source_tokenizer is not None
            estimator.architecture_ = Architecture.from_dict(config["architecture"])
            estimator.source_vocabulary_ = PretrainedVocabulary.from_json(files.source_tokenizer)
        if estimator.inputs_.vectors is not None:
            estimator._vectors = files.weights["embedding.pretrained"].numpy()
        with torch.random.fork_rng():
            estimator.model_ = estimator._make_model()
        estimator.model_.load_state_dict(files.weights)
        estimator.model_.eval()
        return estimator


def _find_preset(preset: str) -> Preset:
    TranslatorOptions(preset).validate()
    return PRESETS[preset]


def _check_lengths(what: str, lengths: Iterable[int], longest: int, numbers: Iterable[int] | None) -> None:
    """Reject texts of more than ``longest`` subwords; errors count texts from 1, like lines."""
    for number, length in zip(count_from() if numbers is None else numbers, lengths, strict=False):
        if length > longest:
            raise DataError(
                f"{what} {number + 1} has {length:,} subwords; the limit is {longest:,}",
                hint="Shorten it, delete it, or raise {longest}.",
                options=("longest",),
            )


def _read_two_files(source: Path, target: Path, skip: Skip | None) -> tuple[list[Any], list[str]]:
    from graphattn.builders.readers import read_parallel
    from graphattn.builders.store import Store

    if not is_store(source):
        return _split_pairs(list(read_parallel(source, target, skip=skip)), source)
    sentences, lines = list(Store(source)), [line for _, line in read_parallel(target, target)]
    if len(sentences) != len(lines):
        raise DataError(
            f"has {len(sentences)} texts, {target} has {len(lines)} lines",
            path=source,
            hint="Give one target per source.",
        )
    return sentences, lines


def _split_pairs(pairs: list[tuple[Any, str]], path: Path) -> tuple[list[Any], list[str]]:
    if not pairs:
        raise DataError("no pair can be used", path=path, hint="Give at least one.")
    return [source for source, _ in pairs], [target for _, target in pairs]


def _read_table(
    path: Path, text: str, second: str, skip: Skip | None, *, header: bool | None
) -> tuple[list[Any], list[str]]:
    pairs, blank = [], []
    with open_text(path) as lines:
        for example in _read_rows(lines, text, second, skip, header=header):
            sides = {"source": example.text, "target": example.second or ""}
            side = next((name for name, content in sides.items() if not content.strip()), None)
            if side is None:
                pairs.append((example.text, example.second or ""))
                continue
            hint = "Delete the row, or complete it."
            blank.append(DataError(f"the {side} is empty", path=lines.path, line=lines.line, hint=hint))
    if blank and skip is None and len(blank) > 1:
        blank[0].message += f", and {len(blank) - 1:,} more row{'s have' if len(blank) > 2 else ' has'} such a field"
    for error in blank:
        raise_or_skip(error, skip)
    return _split_pairs(pairs, path)


def _read_rows(
    lines: TextLines, text: str, second: str, skip: Skip | None, *, header: bool | None
) -> Iterator[Example]:
    from graphattn.builders.readers import read_labelled_lines, read_table
    from graphattn.builders.readers.samples import SAMPLE_LINES, find_parallel_separator

    sample, extension = lines.sample(SAMPLE_LINES), split_suffix(lines)[0]
    reject_markup(sample, lines.path)
    if extension not in _TABLES and "".join(sample[:1]).startswith("{"):
        extension = ".jsonl"
    names = [name.strip() for line in sample[:1] for name in line.split("\t")]
    if extension not in _NAMED_COLUMNS and (header is False or not {text, second} <= {*names}):
        separator = find_parallel_separator(sample)
        if separator is not None and (text, second) == ("text", "second"):  # other names require a header
            columns = ("text", "second")
            return read_labelled_lines(lines, columns=columns, separator=separator, header=header, skip=skip)
        if len(names) > 2 and separator is None:
            hint = "Name them in a header, or keep two: cut -f1,2 OLD > NEW.tsv."
            problem = f"{len(names)} fields, of which none is named {text!r} or {second!r}"
            raise DataError(problem, path=lines.path, line=1, hint=hint)
        if extension != ".tsv":
            hint = "Give sources and targets, or a CSV, TSV or JSON Lines of both."
            raise DataError("not a table of sources and targets", path=lines.path, hint=hint)
    rows = read_table(lines, text=text, second=second, label=None, format=_TABLES.get(extension, "tsv"), skip=skip)
    return (row for row in rows if isinstance(row, Example))  # all are, since they have two texts
