"""The translator: generates a text from a text, for translation, summarisation and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from typing_extensions import override

from graphattn._validation import require_range
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders._subwords import Subwords
from graphattn.models._corpus import Corpus
from graphattn.models._decoders.generation import generate
from graphattn.models._decoders.options import (
    PRESETS,
    DecoderOptions,
    SearchOptions,
    SubwordOptions,
    TranslationTraining,
)
from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.estimator import Estimator
from graphattn.models._estimators.inputs import as_list
from graphattn.models._estimators.loading import register_task
from graphattn.models._estimators.state import list_arguments, make_corpus
from graphattn.models._estimators.tasks.translate import Translation, compute_perplexity
from graphattn.models._estimators.texts import Texts
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import Options, ParsingOptions, option


@dataclass(frozen=True)
class Output:
    """A generated text; its score is the log-probability, divided by its length to the power of the length penalty."""

    text: str
    score: float


@dataclass
class ParallelFileOptions(Options):
    """Corpora besides the training set."""

    init_from: str | None = option(None, "trained model to continue from, with its options and sub-words", common=True)
    keep_from: tuple[str, ...] = option(
        (), "old examples, of which a sample is mixed in, so that less is forgotten (with init_from)", common=True
    )
    keep_dev: tuple[str, ...] = option(
        (), "old examples, measured before and after, with a warning if they get worse (with init_from)", common=True
    )
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
    >>> Translator("transformer", preset="small").resolve_options()["encoder"].hidden
    256
    """

    task = Translation
    task_: Translation
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
    unused_options = frozenset({"join_pairs", "frozen", "contrastive"})
    late_options = frozenset({"search", "parsing"})
    search: SearchOptions

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
        super().__init__(**list_arguments(locals()))

    @property
    def subwords_(self) -> Subwords:
        """The subwords of targets; those of sources, too, unless a pretrained model reads them."""
        return self.task_.labels.target_inputs.subwords

    @property
    def source_vocabulary_(self) -> PretrainedVocabulary | None:
        """The vocabulary of the pretrained model, if one reads the sources."""
        vocabulary = self.text_inputs_.vocabulary
        return vocabulary if isinstance(vocabulary, PretrainedVocabulary) else None

    @override
    def read_texts(self, X: Iterable[Any]) -> Texts:
        return Texts.of(X, self.task_).load()

    @override
    def encode_texts(self, texts: Texts) -> Corpus:
        inputs: Any = self.text_inputs_
        inputs.longest = self.inputs.longest  # which may change after training
        return super().encode_texts(texts)

    @override
    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> Corpus:
        self._check_fitted()
        texts = self.read_texts(X)
        if targets is None:
            targets = self.predict(texts)
        targets = self.task_.labels.resolve(texts.columns[0], targets)
        (sources,) = self.text_inputs_.sentences(self.text_inputs_.add_heads(texts, self.parsing))
        sentences = {"source": sources, "target": self.subwords_.split(targets)}
        return self.encode_texts(replace(texts, labels=targets)).with_sentences(sentences, list(targets))

    @override
    def predict(self, X: Iterable[Any]) -> list[str]:
        """A text for each source; an empty one for a source without words."""
        texts: list[str] = super().predict(X)
        return texts

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
        texts = self.read_texts(X)
        corpus = self.encode_texts(replace(texts, numbers=range(first - 1, first - 1 + len(texts))))
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
        X = as_list(X, self.task_)
        return compute_perplexity(self.model_, make_corpus(self, X, self.task_.labels.resolve(X, y)))

    @override
    def predict_rows(
        self, X: Sequence[Any], *, probabilities: bool = False, first: int = 1, n_best: int = 1
    ) -> list[dict[str, Any]]:
        """Translations as rows of JSON, each with its source, as ``graphattn predict`` prints them.

        Parameters
        ----------
        X : the sources
        probabilities : ignored, as outputs have scores
        first : number of the first source in errors, when these are a part of more
        n_best : outputs for each source
        """
        X = as_list(X, self.task_)
        outputs = self.outputs(X, count=n_best, first=first)
        rows = self.task_.rows
        return [rows.format(x, output) for x, output in zip(X, outputs, strict=True)]
