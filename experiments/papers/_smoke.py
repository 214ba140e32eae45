"""Quick runs of all tables and figures: generated corpora, small models, one step."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import Tokenizer, models, pre_tokenizers, processors

from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.experiments.papers._baselines import BASELINES
from graphattn.experiments.papers._data_sets import DATA_SETS, DataSet, ParallelSet, find_data_set
from graphattn.experiments.papers._measurements import LAYER_COSTS, MIRRORED
from graphattn.experiments.papers._runs import Run, with_changes
from graphattn.experiments.papers._settings import (
    MINILM,
    SENTENCE_VECTORS,
    SETFIT,
    TRANSFORMERS,
    VECTOR_FILES,
    Groups,
    make_estimator,
)
from graphattn.models._encoders import NoEncoderOptions
from graphattn.models.pretrained._architecture import Architecture
from graphattn.models.pretrained._encoder import PretrainedEncoder

SIZE = 24
"""Examples of each part of a corpus: enough for ten folds with two labels."""
_WORDS = ("a", "good", "bad", "film", "plot", "salted", "soup")
_HEADS = 2


@contextmanager
def smoke_folder() -> Iterator[Path]:
    """A data folder with small generated corpora, word vectors and a model, which is deleted at the end."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for data_set in DATA_SETS.values():
            for file in data_set.files():
                _write(folder / file, "".join(f"{_line(data_set, file, n)}\n" for n in range(SIZE)))
        for file in DATA_SETS["multi30k"].files():
            _write((folder / file).with_suffix(".de"), "".join(f"{_text(n)}\n" for n in range(SIZE)))
        for number, file in enumerate(VECTOR_FILES.values(), 4):
            rows = (
                f"{word} {' '.join(str((n + k) % 5 - 2) for k in range(number))}\n" for n, word in enumerate(_WORDS)
            )
            _write(folder / file, "".join(rows))
        write_model(folder / MINILM)
        yield folder


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    path.write_bytes(lzma.compress(content, preset=0) if path.suffix == ".xz" else content)


def write_model(folder: Path, words: Sequence[str] = _WORDS) -> None:
    """Write a small random model with the layers and heads of MiniLM, and a tokenizer of these words."""
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *words)
    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    config = {"hidden_size": 24, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 4}
    sizes = {"vocab_size": len(words), "max_position_embeddings": 32, "type_vocab_size": 2}
    model = PretrainedEncoder(Architecture.of({"model_type": "bert", **config, **sizes}))
    model.to_huggingface(folder, vocabulary=PretrainedVocabulary(tokenizer))


def _text(number: int) -> str:
    return f"a {'good' if number % 2 else 'bad'} {_WORDS[3 + number % 4]}"


def _line(data_set: DataSet, file: str, number: int) -> str:
    """A line of a corpus in the format of its file; a tagged sentence has several."""
    text, label = _text(number), "4" if number % 2 and file.startswith("sst5") else str(number % 2)
    if data_set.per_word:
        rows = []
        for position, word in enumerate(text.split(), 1):
            tag = ("B-X" if number % 2 else "O") if data_set.metric == "f1" else f"T{position}"
            arc = [str(position), word, "_", tag, *"__", str(position - 1), *"___"]
            rows.append("\t".join(arc if ".conllu" in file else [word, tag]) + "\n")
        return "".join(rows)
    if file.startswith("scitldr"):
        return json.dumps({"source": [f"{text} .", text], "target": [text]})
    fields = {"imdb/": (label, "9", "1", text), "snli_": (label, text, text)}.get(file[:5])
    if fields is None:
        fields = {"classify": (label, text), "pair": (text, text, label), "translate": (text,)}[data_set.task]
    return "\t".join(fields)


def shrink(run: Run) -> Run:
    """The run with a small model and one step."""
    if run.data_set == MIRRORED:
        task = {"features": 2, "samples": 4, "epochs": 1}
        return with_changes(run, {"task": task, "encoder": {"hidden": 20}})
    if run.data_set == LAYER_COSTS:
        length = run.changes["task"]["length"] // 8
        return with_changes(run, {"task": {"sentences": 2, "length": length, "repeats": 1, "memory": False}})
    if run.encoder in (*BASELINES, SENTENCE_VECTORS, SETFIT):
        return run
    training = {"epochs": 2 if "epochs" in run.changes.get("training", {}) else 1, "batch_size": SIZE}
    changes: Groups = {"training": {**training, "max_tokens": None, "precision": "32", "average": None}}
    if run.encoder == TRANSFORMERS:
        return with_changes(run, changes)
    changes["encoder"] = _shrink_encoder(run)
    if isinstance(find_data_set(run.data_set), ParallelSet):
        changes |= {
            "decoder": {"decoder_layers": 1, "decoder_ffn": 4, "decoder_heads": 1},
            "inputs": {"vocabulary_size": run.changes.get("inputs", {}).get("vocabulary_size", 1500) // 25},
            "parsing": {"parser": "none"},
            "search": {"beam": 1, "min_length": 0, "max_length": 3},
        }
    else:
        changes["inputs"] = {"character_embedding": 2, "character_filters": 2}
    return with_changes(run, changes)


def _shrink_encoder(run: Run) -> dict[str, object]:
    """Two features for each head, and a narrow feed-forward layer."""
    options = make_estimator(run.data_set, run.encoder, 0, run.changes, Path()).resolve_options()["encoder"]
    if isinstance(options, NoEncoderOptions):
        return {}
    heads = getattr(options, "num_heads", getattr(options, "heads", _HEADS))
    small: dict[str, object] = {"hidden": 2 * heads}
    small |= {"head_feats": None} if getattr(options, "head_feats", None) else {}
    small |= {"ffn": 4} if hasattr(options, "ffn") else {}
    return small
