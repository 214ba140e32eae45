"""Translation: a text for each text, written by a decoder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._validation import require_choice, require_multiple
from graphattn.builders._subwords import join_pieces
from graphattn.builders._values import describe_value, is_list, read_strings
from graphattn.exceptions import ConfigError, DataError, Hint, warn_caller
from graphattn.models._corpus import Batch, Corpus, digest_of
from graphattn.models._decoders import make_decoder
from graphattn.models._decoders.generation import generate
from graphattn.models._decoders.model import SharedEmbedding, TranslationModel, shift_right
from graphattn.models._decoders.options import PRESETS, SearchOptions, TranslationTraining
from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.inputs import as_list
from graphattn.models._estimators.pretrained_inputs import PretrainedSources
from graphattn.models._estimators.subword_inputs import SubwordInputs
from graphattn.models._estimators.tasks.explain import Explainer
from graphattn.models._estimators.tasks.files import CorpusFiles, describe_pairs, read_pairs
from graphattn.models._estimators.tasks.head import Predictor
from graphattn.models._estimators.tasks.labels import Labels
from graphattn.models._estimators.tasks.recipes import Recipe
from graphattn.models._estimators.tasks.rows import OutputRows, Rows
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._files.saving import ModelFiles
from graphattn.models._options import InputOptions
from graphattn.models._prediction import Predictions, run_model
from graphattn.models._results.reports import Report
from graphattn.models.pretrained._directories import ARCHITECTURE_TYPES
from graphattn.models.training._hints import hint_at_empty_texts, hint_at_short_references, hint_at_tokenizer
from graphattn.models.training._text_metrics import (
    are_short,
    bleu_interval,
    choose_tokenizer,
    compare_systems,
    signatures,
    sum_bleu,
    text_metrics,
)

if TYPE_CHECKING:
    import pandas as pd

    from graphattn.models.inspection._capture import ForwardCapture
    from graphattn.models.inspection.attributions._targets import ExplanationTarget


class TargetTexts(Labels):
    """A text for each text, as the ids of its subwords; ``training`` are the options as they are at the moment."""

    weighted_metrics = False
    main_metric, predicted_field = "bleu", "output"
    target_inputs: SubwordInputs
    """The subwords of targets, and of sources unless a pretrained model reads them."""
    training: TranslationTraining

    @override
    def resolve(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        if y is None:
            bare = next((n for n, item in enumerate(X, 1) if getattr(item, "second", None) is None), None)
            if bare is not None:
                raise DataError(f"source {bare} has no target", hint="Give y, or examples with both texts.")
            return [item.second for item in X]
        targets: list[Any] = as_list(y)
        for number, target in enumerate(targets, 1):
            _check_target(target, number)
        if len(targets) != len(X):
            raise DataError(f"{len(X)} sources but {len(targets)} targets", hint="Give one for each.")
        return targets

    @override
    def normalize(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        for number, target in enumerate(labels, 1):
            if isinstance(target, (list, tuple)) and not target:
                raise DataError(f"target {number} is an empty list", hint="Give a text, or a list of references.")
        return labels

    @override
    def fit(self, examples: Texts, options: Mapping[str, Any], previous: Self | None = None) -> None:
        for number, (source, target) in enumerate(zip(examples.columns[0], examples.labels, strict=True), 1):
            for name, text in (("source", source), ("target", target)):
                if not (text.strip() if isinstance(text, str) else text):
                    raise DataError(f"{name} {number} is empty", hint="Delete the pair, or complete it.")

    @override
    def make_targets(self, labels: Sequence[Any], where: str) -> Any:
        if len(labels) and isinstance(labels[0], np.ndarray):  # of the training set, numbered with its words
            return labels
        return self.target_inputs.ids(labels)

    @override
    def describe_references(self, held_out: Texts | None) -> str | None:
        if held_out is None or held_out.numbers is not None:  # these are part of the training set
            return None
        return digest_of(repr(held_out.labels))

    @override
    def list_metrics(self) -> Sequence[str]:
        return list(self.measure([""], [""]))  # raises before training if a library is missing

    @override
    def measure(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        return text_metrics(labels, decisions, tokenizer=self.training.bleu_tokenizer)

    @override
    def decode(self, decisions: list[Any]) -> list[str]:
        return decisions

    @override
    def hint_at_predictions(self, labels: Sequence[Any], decisions: list[Any], *, has_vectors: bool) -> Hint | None:
        return hint_at_empty_texts(decisions)

    @override
    def report(
        self,
        examples: Texts,
        predictions: Predictions,
        *,
        others: Mapping[str, Any] | None = None,
        **unused: Any,
    ) -> Report:
        decisions = predictions.decisions
        references = examples.labels
        report: dict[str, Any] = self.measure(references, decisions)
        tokenizer = self.training.bleu_tokenizer
        report["signatures"] = signatures(references, decisions, tokenizer=tokenizer)
        if others:
            outputs = {name: self.read_predictions(theirs, len(decisions)) for name, theirs in others.items()}
            report["compared"] = compare_systems(references, {"model": decisions, **outputs}, tokenizer=tokenizer)
        interval = bleu_interval(references, decisions, tokenizer=tokenizer)

        def measure(numbers: Sequence[int]) -> dict[str, float]:
            return self.measure([references[number] for number in numbers], [decisions[number] for number in numbers])

        sums = sum_bleu(references, decisions, tokenizer=tokenizer)
        return Report(report, self.main_metric, interval=interval, sums=sums, measure=measure)


class Writer(Predictor):
    """Makes a model with a decoder, and searches for its outputs; ``search`` are the options as they are now."""

    search: SearchOptions

    def __init__(self, labels: TargetTexts):
        self.labels = labels

    @override
    def make_model(
        self, inputs: TextInputs, encoder: EncoderOptions, options: Mapping[str, Any], weights: Tensor | None = None
    ) -> tuple[TranslationModel, EncoderOptions]:
        layers = inputs.make_layers(encoder, options["inputs"].embedding_dropout)
        decoder, output = make_decoder(layers.encoder, layers.options, options["decoder"])
        embedding: SharedEmbedding
        if self.labels.target_inputs is inputs:
            embedding = self.labels.target_inputs.make_embedding(encoder)
        else:
            width, rate = layers.options.hidden, options["inputs"].embedding_dropout
            embedding = SharedEmbedding(len(self.labels.target_inputs.vocabulary), width, rate)
        smoothing = options["training"].label_smoothing
        model = TranslationModel(
            embedding, layers.encoder, decoder, output, sources=layers.embedding, label_smoothing=smoothing
        )
        model.learning_rates = layers.learning_rates
        return model, layers.options

    @override
    def predict_dev_set(self, model: TranslationModel, corpus: Corpus) -> list[str]:
        """Greedy outputs for the dev set, which take a fraction of the time of a beam search."""
        return self._write(model, corpus, replace(self.search, beam=1, sample=False))

    @override
    def predict(self, model: TranslationModel, corpus: Corpus) -> list[str]:
        self.search.validate()
        return self._write(model, corpus, self.search)

    def _write(self, model: TranslationModel, corpus: Corpus, search: SearchOptions) -> list[str]:
        subwords = self.labels.target_inputs.subwords
        generated = generate(model, corpus, search, subwords.vocabulary)
        return [subwords.text(hypotheses[0].ids) for hypotheses in generated]


class Translation(Task):
    """Generate a text for each text."""

    name = corpus_kind = "translate"
    description = "writes texts"
    prediction_options = frozenset({"n_best", "search", "longest", "plain", "compare", "by", "bleu_tokenizer"})
    output_formats = ("json", "csv", "tsv", "parquet")
    source_and_target_files = True
    truncates = False
    dev_search = "greedy search"
    default_encoder = "transformer"
    fine_tuning: ClassVar[Recipe] = {}
    changeable = (*Task.changeable, "search", "training")
    labels: TargetTexts
    head: Writer

    def __init__(self, **arguments: Any):
        super().__init__(**arguments)
        self.labels = TargetTexts()
        self.head = Writer(self.labels)

    @override
    def update(self, arguments: Mapping[str, Any]) -> None:
        super().update(arguments)
        self.head.search, self.labels.training = arguments["search"], arguments["training"]

    @override
    @classmethod
    def preset_options(cls, preset: str, encoder: type[EncoderOptions]) -> Recipe:
        require_choice("preset", preset, tuple(PRESETS))
        sizes = PRESETS[preset]
        encoder_sizes = vars(encoder.for_translation(sizes.encoder))
        return {"encoder": encoder_sizes, "decoder": sizes.decoder, "training": sizes.training}

    @override
    @classmethod
    def derive_options(cls, options: Mapping[str, Any]) -> Recipe:
        return {}

    @override
    @classmethod
    def check_options(cls, encoder: EncoderOptions, options: Mapping[str, Any]) -> None:
        super().check_options(encoder, options)
        if options["inputs"].vectors is not None and encoder.streams == 1:
            raise ConfigError(
                f"{{vectors}} are for the second embedding of duo-transformer; {encoder.name} has one",
                options=("vectors", "encoder"),
            )
        if options["pretrained"].pretrained is not None and encoder.streams > 1:
            raise ConfigError(
                f"{{encoder={encoder.name}}} has two embeddings of its own; "
                "choose another {encoder}, or leave out {pretrained}",
                options=("encoder", "pretrained"),
            )
        require_multiple("hidden", encoder.hidden, options["decoder"].decoder_heads, "decoder_heads")

    @override
    def read(self, corpus: CorpusFiles) -> tuple[Any, Any, Mapping[str, Any]]:
        return *read_pairs(corpus), describe_pairs(corpus) if corpus.renew or not corpus.training else corpus.training

    @override
    def describe_reading(self, training: Mapping[str, Any]) -> dict[str, Any]:
        return {"training": {name: value for name, value in training.items() if name != "second"}}

    @property
    @override
    def rows(self) -> Rows:
        return OutputRows()

    @override
    def make_inputs(self, options: Mapping[str, Any]) -> TextInputs:
        subwords, pretrained = options["inputs"], options["pretrained"]
        self.labels.target_inputs = SubwordInputs(subwords)
        if pretrained.pretrained is None:
            return self.labels.target_inputs
        return PretrainedSources(InputOptions(cls=subwords.cls, characters=False), pretrained)

    @override
    def fit_inputs(self, inputs: TextInputs, examples: Texts, options: Mapping[str, Any], previous: Any) -> Texts:
        seed = options["training"].seed
        if previous is not None:
            inputs.extend(previous.text_inputs_, previous.model_, examples)
            if self.labels.target_inputs is not inputs:
                self.labels.target_inputs.extend(previous.task_.labels.target_inputs, previous.model_, examples)
            return examples
        (sources,), targets = examples.columns, examples.labels
        words: Any = None
        of_targets: Any
        if self.labels.target_inputs is inputs:
            *words, of_targets = inputs.fit(Texts([sources, targets]), seed).sources
        else:
            inputs.fit(examples, seed)
            (of_targets,) = self.labels.target_inputs.fit(Texts([targets]), seed).sources
        return replace(examples, words=words, labels=self.labels.target_inputs.subwords.number(of_targets))

    @override
    def find_facts(self, training: Texts, held_out: Texts | None, options: Mapping[str, Any]) -> dict[str, Any]:
        if held_out is None:
            return {}
        labels, metric, tokenizer = held_out.labels, options["training"].metric, self.labels.training.bleu_tokenizer
        if tokenizer == "auto" and (chosen := choose_tokenizer(labels)) != "13a":
            warn_caller(hint_at_tokenizer(chosen))
        if metric is None:
            useful = not are_short(labels, tokenizer=tokenizer)
        else:
            perfect = [label if isinstance(label, str) else label[0] for label in labels]
            useful = self.labels.measure(labels, perfect).get(metric) != 0
        if useful:
            return {}
        warn_caller(hint_at_short_references(metric or self.labels.main_metric))
        return {"metric": "chrf"}

    @override
    def explain(self, model: Any) -> Explainer:
        return TranslationExplainer(model)

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        return {"deprels": list[str] | None, **ARCHITECTURE_TYPES}

    @override
    def list_tokenizers(self, inputs: TextInputs) -> tuple[str, str | None]:
        sources = None if inputs is self.labels.target_inputs else inputs.vocabulary.to_json()
        return self.labels.target_inputs.vocabulary.to_json(), sources

    @override
    def restore(self, inputs: TextInputs, files: ModelFiles) -> None:
        self.labels.target_inputs.restore(files.config, files.tokenizer, files.weights)
        if inputs is not self.labels.target_inputs:
            assert files.source_tokenizer is not None
            inputs.restore(files.config, files.source_tokenizer, files.weights)


class TranslationExplainer(Explainer):
    """Explains an output text, whose words are targets of the decoder."""

    @override
    def check_input(self, inputs: Corpus) -> None:
        super().check_input(inputs)
        if not inputs.first_sentences["source"].tokens:
            raise DataError("the source has no words, so there is no attention", hint="Give a text.")

    @override
    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        from graphattn.models.inspection._capture import capture_decoding

        return capture_decoding(self.model, batch)

    @override
    def choose_target(
        self, inputs: Corpus, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        from graphattn.models.inspection.attributions._targets import select_text

        if label is not None:
            raise ConfigError("{label} is a class; a translator needs a {target}", options=("label", "target"))
        assert inputs.first_batch.targets is not None
        return select_text(inputs.first_batch.targets, inputs.first_sentences["target"], word)

    @override
    def describe_prediction(self, inputs: Corpus, scores: Tensor) -> tuple[str, Any, Any]:
        assert inputs.first_batch.targets is not None
        targets = inputs.first_batch.targets.to(scores.device).unsqueeze(1)
        probability = float(scores.log_softmax(1).gather(1, targets).sum().exp())
        words = inputs.first_sentences["source"].words
        title = " ".join(words) if self.model.sources is not None else join_pieces(words)
        return title, inputs.outputs[0], {inputs.outputs[0]: probability}

    @override
    def score_copies(
        self,
        batch: Batch,
        *,
        vectors: Tensor | None = None,
        hidden: pd.DataFrame | None = None,
        **unused: Any,
    ) -> Tensor:
        assert batch.targets is not None and batch.target_counts is not None
        model = self.model
        length = int(batch.target_counts[0])
        memory = model.encode(batch) if vectors is None else model.encode_vectors(batch.graph, vectors)
        state = model.decoder.start(memory)
        if hidden is not None and len(hidden):
            state.mask = state.mask.repeat(1, 1, length, 1)  # (B, 1, T, S)
            # position 0 of the target is its end, which comes last
            rows = (torch.tensor(hidden.target.to_numpy()) - 1) % length
            copies, sources = (torch.tensor(hidden[name].to_numpy()) for name in ("copy", "source"))
            state.mask[copies, 0, rows, sources] = False
        scores: Tensor = model.advance(shift_right(to_device(batch.targets, model.device), batch.target_counts), state)
        return scores


def compute_perplexity(model: TranslationModel, corpus: Corpus) -> float:
    """The exponential of the mean negative log-probability of a corpus' target subwords."""
    total, count = 0.0, 0

    def add_batch(batch: Batch, _: list[int]) -> None:
        nonlocal total, count
        assert batch.targets is not None
        scores = model(batch)
        total += float(F.cross_entropy(scores, to_device(batch.targets, scores.device), reduction="sum"))
        count += len(batch.targets)

    run_model(model, corpus, add_batch)
    return math.exp(total / count)


def _check_target(target: Any, number: int) -> None:
    """Reject a target that is neither a text nor a list of them."""
    if is_list(target):
        read_strings(target, f"target {number}: text")
    elif not isinstance(target, str):
        hint = "Give a text, or a list of references."
        raise DataError(f"target {number} is {describe_value(target)}", hint=hint)
