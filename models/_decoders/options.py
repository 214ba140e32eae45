"""Options of translators: subwords, decoder, training, search; and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from graphattn.builders._word_boundaries import DEFAULT_SPLIT, SPLITS
from graphattn.exceptions import ConfigError
from graphattn.models._encoders.umst import SIZES
from graphattn.models._options import CLS_HELP, TrainingOptions
from graphattn.options import Options, option

BLEU_TOKENIZERS = ("auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "flores101", "flores200", "none")
"""See :func:`~graphattn.models.training._text_metrics.choose_tokenizer`; the others are sacrebleu's."""


@dataclass
class SubwordOptions(Options):
    """How sources and targets become subwords of one joint vocabulary."""

    vocabulary_size: int = option(
        8000, "maximum size of the joint vocabulary, or with a pretrained model that of the targets", min=1, common=True
    )
    split: str = option(
        DEFAULT_SPLIT,
        "how raw text is split: into words; also keeping #tags, @names, URLs and emoticons whole; or at white space",
        choices=SPLITS,
    )
    cls: bool | None = option(None, CLS_HELP)
    lowercase: bool = option(False, "lower-case sources and targets")
    vectors: str | None = option(
        None, "word vectors for the second embedding of duo-transformer (GloVe, word2vec, fastText; .xz .gz .bz2)"
    )
    longest: int = option(1024, "maximum number of subwords of a source or target; a longer one is an error", min=1)
    embedding_dropout: float = option(0.1, "dropout on token embeddings", min=0, below=1)


@dataclass
class DecoderOptions(Options):
    """The decoder; its width is the encoder's, since both share the embeddings."""

    decoder_layers: int = option(3, "number of decoder layers", min=1, common=True)
    decoder_heads: int = option(4, "heads of each decoder layer", min=1)
    decoder_ffn: int = option(512, "width of the decoder's feed-forward layer", min=1)
    decoder_dropout: float = option(0.1, "dropout on the output of each decoder sub-layer", min=0, below=1)
    decoder_ffn_dropout: float | None = option(
        None, "dropout inside the decoder's feed-forward layer (default: as decoder_dropout)", min=0, below=1
    )
    decoder_attn_drop: float = option(0.0, "dropout on the decoder's attention weights", min=0, below=1)

    @property
    def inner_dropout(self) -> float:
        """Dropout inside the feed-forward layer."""
        return self.decoder_dropout if self.decoder_ffn_dropout is None else self.decoder_ffn_dropout


@dataclass
class SearchOptions(Options):
    """How texts are generated."""

    beam: int = option(4, "hypotheses kept at each step; 1 is greedy search", min=1, common=True)
    length_penalty: float = option(
        1.0,
        "a hypothesis' log-probability is divided by its length to this power; 1: the mean of its subwords",
        min=-10,
        max=10,
    )
    min_length: int = option(1, "minimum number of subwords of an output; from 1, outputs are not empty", min=0)
    max_length: int | None = option(
        None, "maximum number of subwords of an output (default: twice the source's plus 10)", min=1
    )
    no_repeat_ngram: int | None = option(None, "never repeat an n-gram of this many subwords", min=1)
    sample: bool = option(False, "sample tokens instead of searching for the most probable text")
    temperature: float = option(1.0, "sampling: below 1 favours probable tokens, above 1 improbable ones", above=0)
    top_k: int | None = option(None, "sampling: only from this many most probable tokens", min=1)
    top_p: float = option(
        1.0, "sampling: only from the most probable tokens with this total probability", above=0, max=1
    )
    sample_seed: int = option(0, "sampling: outputs depend on this seed and the position of the source", min=0)

    @override
    def check(self) -> None:
        if self.max_length is not None and self.min_length > self.max_length:
            raise ConfigError(
                f"{{min_length}} is {self.min_length} and {{max_length}} {self.max_length}; lower {{min_length}}",
                options=("min_length", "max_length"),
            )


@dataclass
class TranslationTraining(TrainingOptions):
    """How a translator is trained; the defaults are usual for Transformers and batches of a few thousand tokens."""

    epochs: int | None = option(20, "maximum number of passes over the training set", min=1, common=True)
    patience: int | None = option(None, "stop after this many epochs without a better dev metric", min=1)
    batch_size: int = option(4096, "maximum number of pairs in a batch (over all processes)", min=1)
    max_tokens: int | None = option(
        2000, "maximum number of tokens in a batch, sources and targets together", min=1, common=True
    )
    learning_rate: float = option(1e-3, "highest learning rate", above=0, common=True)
    beta2: float = option(0.997, "decay rate of Adam's mean of squared gradients", min=0, below=1)
    weight_decay: float = option(0.0, "weight decay, never on biases, norms and embeddings", min=0)
    schedule: str = option(
        "inverse-sqrt", "decay after warm-up", choices=("linear", "cosine", "constant", "inverse-sqrt")
    )
    warmup_steps: int | None = option(1000, "number of warm-up steps, instead of a share", min=1)
    label_smoothing: float = option(0.1, "probability mass spread over all subwords", min=0, below=1)
    metric: str | None = option(
        None, "dev metric that chooses the best epoch (default: BLEU; chrF if most references have under four tokens)"
    )
    bleu_tokenizer: str = option(
        "auto", "sacrebleu's tokenizer for BLEU; auto: by the script of the references", choices=BLEU_TOKENIZERS
    )


@dataclass(frozen=True)
class Preset:
    """A model size: options of encoder (if it has them), decoder and training."""

    encoder: Mapping[str, Any]
    decoder: Mapping[str, Any]
    training: Mapping[str, Any]


def _paper_preset(size: str) -> Preset:
    """A size of UMST with a decoder of 6 layers, and the paper's training settings."""
    encoder = SIZES[size]
    decoder = {f"decoder_{name}": value for name, value in encoder.items() if name not in ("hidden", "layers")}
    training = {"max_tokens": 9600, "accumulate": 8, "learning_rate": 2e-3, "warmup_steps": 16_000}
    return Preset(encoder, {"decoder_layers": 6, **decoder}, training)


PRESETS: dict[str, Preset] = {
    "small": Preset(
        {"hidden": 256, "layers": 3, "heads": 4, "ffn": 512, "dropout": 0.1},
        {"decoder_layers": 3, "decoder_heads": 4, "decoder_ffn": 512, "decoder_dropout": 0.1},
        {},
    ),
    **{size: _paper_preset(size) for size in ("base", "deep", "big")},
}
"""Name -> preset: ``small`` for one CPU core, the others as in UMST's appendix A, with the depths of its Table 5."""
