"""Attention of other people's models: dense arrays, and outputs of transformers, as the data of an ``Attention``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphattn._precision import at_least_float32
from graphattn.builders._sentence import Sentence
from graphattn.exceptions import ConfigError
from graphattn.models.inspection._attention_map import SOURCE, TARGET, AttentionMap, Floats
from graphattn.models.inspection._capture import CROSS

TEXT, ALL, CAUSAL = "text", "all", "causal"
Bools = npt.NDArray[np.bool_]
WordNumbers = Sequence[int | None]
"""For each token the number of its word, None for a special token."""
_TOLERANCE, _HALF_TOLERANCE = 1e-3, 2e-2
"""By how much the sum of the weights into a token may exceed one, in float32 and in half precision."""


def read_dense(
    attentions: Any,
    tokens: Sequence[str],
    *,
    words: WordNumbers | None,
    sentence: Sentence | None,
    target_tokens: Sequence[str] | None,
    target_words: WordNumbers | None,
    decoder: Any,
    cross: Any,
    relation: str | None,
) -> dict[str, Any]:
    """``tokens``, ``sentences`` and ``maps`` of an ``Attention``; parameters as of ``Attention.from_dense``."""
    if target_tokens is None:
        for name, values in (("decoder", decoder), ("cross", cross)):
            if values is not None:
                raise ConfigError(
                    f"{{{name}}} is attention of target tokens; give {{target_tokens}}",
                    options=(name, "target_tokens"),
                )
        layers = _read_layers("attentions", attentions, len(tokens), len(tokens))
        maps = [_make_map(layer, 0, relation, (TEXT, TEXT), values) for layer, values in layers.items()]
        texts = {TEXT: (tuple(tokens), words, sentence)}
    else:
        lengths = {SOURCE: len(tokens), TARGET: len(target_tokens)}
        maps, below = [], 0
        if attentions is not None:
            layers = _read_layers("attentions", attentions, len(tokens), len(tokens))
            maps = [_make_map(layer, 0, relation, (SOURCE, SOURCE), values) for layer, values in layers.items()]
            below = 1 + max(layers)
        first_heads: dict[int, int] = {}
        for name, dense, own, source in (("decoder", decoder, None, TARGET), ("cross", cross, CROSS, SOURCE)):
            if dense is not None:
                for layer, values in _read_layers(name, dense, lengths[TARGET], lengths[source]).items():
                    first_head = first_heads.get(layer, 0)
                    maps.append(_make_map(below + layer, first_head, own, (source, TARGET), values))
                    first_heads[layer] = first_head + len(values)
        texts = {SOURCE: (tuple(tokens), words, sentence), TARGET: (tuple(target_tokens), target_words, None)}
    if not maps:
        raise ConfigError("there are no weights; give {attentions}", options=("attentions",))
    return {
        "tokens": {name: of_text for name, (of_text, _, _) in texts.items()},
        "sentences": {name: make_sentence(*of_text) for name, of_text in texts.items()},
        "maps": tuple(maps),
    }


def _read_layers(name: str, attentions: Any, targets: int, sources: int) -> dict[int, Floats]:
    """Layer -> (heads, targets, sources) weights, checked; layers that are None are left out."""
    if attentions is None or (isinstance(attentions, Sequence) and all(layer is None for layer in attentions)):
        raise ConfigError(
            f"{{{name}}} has no weights: the model returned none. Models of transformers return them if they are "
            'loaded with attn_implementation="eager" and called with output_attentions=True; BigBird also needs '
            'attention_type="original_full", and models without attention, such as Mamba and FNet, have none',
            options=(name,),
        )
    layers: dict[int, Floats] = {}
    for number, layer in enumerate(attentions):
        if layer is None:
            continue
        if isinstance(layer, (tuple, list)) and len(layer) and isinstance(layer[0], Tensor) and layer[0].ndim > 2:
            raise ConfigError(
                f"{{{name}}} has weights for each step of a generation; call the model once on the generated sequence",
                options=(name,),
            )
        values, tolerance = _to_floats(layer)
        shape = values.shape
        if values.ndim == 4 and len(values) == 1:  # a batch of one text
            values = values[0]
        if values.ndim != 3 or values.shape[1:] != (targets, sources):
            tokens = f"{targets} tokens" if targets == sources else f"{targets} target and {sources} source tokens"
            raise ConfigError(
                f"{{{name}}}[{number}] has shape {tuple(shape)}; expected (heads, {targets}, {sources}) for {tokens}. "
                "Give one text of a batch, without padding",
                options=(name,),
            )
        _check_weights(name, number, values, tolerance)
        layers[number] = values
    return layers


def _to_floats(values: Any) -> tuple[Floats, float]:
    """An array of at least float32, and the tolerance of its sums."""
    if isinstance(values, Tensor):
        tolerance = _TOLERANCE if torch.finfo(values.dtype).bits > 16 else _HALF_TOLERANCE
        return at_least_float32(values.detach()).cpu().numpy(), tolerance
    array = np.asarray(values)
    is_half = array.dtype == np.float16
    return array.astype(np.float32 if array.dtype.itemsize < 8 else np.float64, copy=False), (
        _HALF_TOLERANCE if is_half else _TOLERANCE
    )


def _check_weights(name: str, layer: int, values: Floats, tolerance: float) -> None:
    """Reject values that are no weights of a softmax; attention sinks and masks take any share of a token's weights."""
    sums = values.sum(axis=2)
    lowest = values.min(axis=2, initial=0.0)
    wrong = ~((lowest >= 0) & (sums <= 1 + tolerance))
    if not wrong.any():
        return
    head, token = (int(place) for place in np.argwhere(wrong)[0])
    where = f"{{{name}}}[{layer}], head {head}, token {token}"
    smallest, total = float(lowest[head, token]), float(sums[head, token])
    if not np.isfinite(total):
        raise ConfigError(f"{where}: a weight is not finite; leave padding out", options=(name,))
    if smallest < 0:
        raise ConfigError(
            f"{where}: a weight is {smallest:.4g}; give weights after the softmax, not scores", options=(name,)
        )
    raise ConfigError(
        f"{where}: the weights sum to {total:.4g}, more than one. Rows must be the tokens that attend; call "
        "model.eval() first, since dropout scales weights; leave padding out",
        options=(name,),
    )


def _make_map(
    layer: int, first_head: int, relation: str | None, parts: tuple[str, str], values: Floats
) -> AttentionMap:
    """(heads, targets, sources) weights as a map; an edge has a weight above zero in some head."""
    targets, sources = np.nonzero(values.any(axis=0))
    if relation is None:
        relation = ALL if len(targets) <= values.shape[1] or (sources > targets).any() else CAUSAL
    return AttentionMap(layer, first_head, relation, *parts, sources, targets, values[:, targets, sources].T)


def make_sentence(tokens: Sequence[str], words: WordNumbers | None, parse: Sentence | None) -> Sentence:
    """The words of tokens; a special token is a word without a dependency, as in batches of pretrained models."""
    if words is None:
        words = range(len(tokens))
    if len(words) != len(tokens):
        raise ConfigError(f"{{words}} has {len(words)} numbers for {len(tokens)} tokens", options=("words",))
    word_ids: list[int] = []
    numbers: dict[int, int] = {}  # of the words in the sentence
    before: int | None = None
    for word in words:
        if word is None or word != before:
            if word in numbers:
                raise ConfigError(f"{{words}} has word {word} twice, with others between", options=("words",))
            word_ids.append(word_ids[-1] + 1 if word_ids else 0)
            if word is not None:
                numbers[word] = word_ids[-1]
        else:
            word_ids.append(word_ids[-1])
        before = word
    if parse is None:
        return Sentence(tuple(tokens), tuple(word_ids))
    if parse.heads is None:
        raise ConfigError("{sentence} has no heads; give a parsed sentence", options=("sentence",))
    unknown = next((word for word in numbers if not 0 <= word < parse.num_words), None)
    if unknown is not None:
        raise ConfigError(
            f"{{words}} has word {unknown}; {{sentence}} has {parse.num_words} words, counted from 0",
            options=("words", "sentence"),
        )
    count = word_ids[-1] + 1 if word_ids else 0
    heads, deprels = [0] * count, [""] * count
    for word, number in numbers.items():
        heads[number] = numbers.get(parse.heads[word] - 1, -1) + 1  # a word without its head is a root
        deprels[number] = "dep" if parse.deprels is None else parse.deprels[word]
    return Sentence(tuple(tokens), tuple(word_ids), heads=heads, deprels=deprels)


def read_outputs(outputs: Any, tokenizer: Any, inputs: Any, *, row: int, sentence: Sentence | None) -> dict[str, Any]:
    """Arguments of :func:`read_dense` from the outputs of a model of transformers; see ``from_transformers``."""
    if isinstance(inputs, Tensor):
        inputs = {"input_ids": inputs}
    encoder = getattr(outputs, "encoder_attentions", None)
    encoder = getattr(outputs, "attentions", None) if encoder is None else encoder
    decoder, cross = (getattr(outputs, f"{name}_attentions", None) for name in ("decoder", "cross"))
    if hasattr(outputs, "global_attentions") or hasattr(outputs, "encoder_global_attentions"):
        raise ConfigError(
            "{outputs} have weights of windows, as Longformer and LED compute them, not of all pairs of tokens. "
            "graphattn.transformers.capture shows those of Longformer",
            options=("outputs",),
        )
    kept = _find_tokens(inputs, "input_ids", "attention_mask", row)
    tokens = name_tokens(tokenizer, _take_ids(inputs["input_ids"][row], kept))
    arguments: dict[str, Any] = {"tokens": tokens, "sentence": sentence, "decoder": None, "cross": None}
    arguments |= {"target_tokens": None, "target_words": None, "relation": None}
    arguments["words"] = _find_words(inputs, row, kept)
    if decoder is None:
        return {**arguments, "attentions": _select_text(encoder, row, kept, kept)}
    if "decoder_input_ids" not in inputs:
        raise ConfigError("{inputs} have no decoder_input_ids, whose attention the outputs have", options=("inputs",))
    targets = _find_tokens(inputs, "decoder_input_ids", "decoder_attention_mask", row)
    return {
        **arguments,
        "target_tokens": name_tokens(tokenizer, _take_ids(inputs["decoder_input_ids"][row], targets)),
        "attentions": _select_text(encoder, row, kept, kept) if encoder is not None else None,
        "decoder": _select_text(decoder, row, targets, targets),
        "cross": _select_text(cross, row, targets, kept) if cross is not None else None,
    }


def _find_tokens(inputs: Mapping[str, Any], ids: str, mask: str, row: int) -> Bools:
    """(N,) which tokens of a text are no padding."""
    if ids not in inputs:
        raise ConfigError(f"{{inputs}} have no {ids}; give what the model was called with", options=("inputs",))
    count = len(inputs[ids])
    if not 0 <= row < count:
        raise ConfigError(f"{{row}} is {row}; the inputs have the texts 0 to {count - 1}", options=("row",))
    if mask not in inputs:
        return np.ones(len(inputs[ids][row]), dtype=np.bool_)
    return torch.as_tensor(inputs[mask][row]).cpu().numpy() != 0


def _select_text(attentions: Any, row: int, targets: Bools, sources: Bools) -> Any:
    """Layers of (B, heads, T, S) weights -> (heads, targets, sources) of one text; others are left for the check."""
    if not isinstance(attentions, (tuple, list)):
        return attentions
    return [
        layer[row].cpu()[:, targets][..., sources]
        if isinstance(layer, Tensor) and layer.ndim == 4 and layer.shape[2:] == (len(targets), len(sources))
        else layer
        for layer in attentions
    ]


def _find_words(inputs: Any, row: int, kept: Bools) -> WordNumbers | None:
    """The word of each token that a fast tokenizer knows of; else each token is a word."""
    if not getattr(inputs, "is_fast", False):
        return None
    words, texts = inputs.word_ids(row), inputs.sequence_ids(row)
    of_first = [word for word, text in zip(words, texts, strict=True) if text == 0 and word is not None]
    second = 1 + max(of_first, default=-1)  # words of both texts of a pair count from 0
    return [None if words[place] is None else words[place] + second * texts[place] for place in np.flatnonzero(kept)]


def _take_ids(ids: Any, kept: Bools) -> list[int]:
    numbers: list[int] = torch.as_tensor(ids).cpu()[torch.as_tensor(kept)].tolist()
    return numbers


def name_tokens(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Tokens as they are read: ``ly`` for ``##ly``; those that are no text alone as the tokenizer names them."""
    texts = []
    for number in ids:
        text = tokenizer.decode([number]).strip().removeprefix("##")
        texts.append(text if text and "\ufffd" not in text else str(tokenizer.convert_ids_to_tokens(number)))
    return texts


def number_words(tokenizer: Any, ids: Sequence[int]) -> WordNumbers:
    """The word of each token, None for a special one.

    Tokens are apart where the tokenizer decodes them with a blank between them. What is between two blanks is encoded
    again, since a fast tokenizer also splits words at punctuation; it is one word if that gives other ids.
    """
    special = {*tokenizer.all_special_ids}

    def are_apart(pair: tuple[int, int]) -> bool:
        text = tokenizer.decode(list(pair), clean_up_tokenization_spaces=False)
        return not special.isdisjoint(pair) or len(text.split()) > 1

    starts = {0, *(place for place, pair in enumerate(pairwise(ids), 1) if are_apart(pair)), len(ids)}
    parts = [list(ids[start:end]) for start, end in pairwise(sorted(starts))]
    texts = [tokenizer.decode(part, clean_up_tokenization_spaces=False) for part in parts]
    is_fast = bool(parts) and getattr(tokenizer, "is_fast", False)
    again: Any = tokenizer(texts, add_special_tokens=False) if is_fast else None
    words: list[int | None] = []
    count = 0
    for number, part in enumerate(parts):
        if part[0] in special:
            words.append(None)
            continue
        is_same = is_fast and again["input_ids"][number] == part
        found = again.word_ids(number) if is_same else [0] * len(part)
        words += [count + word for word in found]
        count += 1 + found[-1]
    return words
