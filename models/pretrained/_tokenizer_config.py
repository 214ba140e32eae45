"""Changes that ``tokenizer_config.json`` makes to the tokenizer of ``tokenizer.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from graphattn.builders._blanks import iterate_steps
from graphattn.builders._special_tokens import SpecialTokens
from graphattn.exceptions import ModelDirectoryError

SAVE_AGAIN = (
    "python -c \"from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('DIR').save_pretrained('DIR')\""
)
"""Command that writes a consistent ``tokenizer.json``."""
_BUILT_FROM_OPTIONS = ("Bert", "DistilBert", "Electra", "MPNet", "Roberta", "XLMRoberta", "Camembert")
"""Tokenizers whose options win over ``tokenizer.json`` in ``transformers``."""
_WITHOUT_SEGMENTS = ("DistilBert", "MPNet", "Roberta", "XLMRoberta", "Camembert", "TokenizersBackend")
"""Tokenizers that give a model no segments unless ``model_input_names`` lists them.

TokenizersBackend is transformers 5's; a PreTrainedTokenizerFast is from transformers 4, where it gave segments.
"""
_NORMALIZER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""Option -> attribute of the normalizer."""


def check_tokenizer(tokenizer: Tokenizer, words: int) -> None:
    """Raise ValueError for a ``tokenizer.json`` whose numbers are not those of a model with so many word vectors."""
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if not 0 <= largest < words:
        raise ValueError(f"its largest id is {largest:,}; the model has {words:,} word vectors")
    model = tokenizer.model
    if isinstance(model, models.WordPiece | models.WordLevel) and model.token_to_id(model.unk_token) is None:
        raise ValueError(f"its vocabulary lacks {model.unk_token}, which stands for unknown words")
    for step in _iterate_nested(_to_json(tokenizer.pre_tokenizer), "pretokenizers"):
        if step["type"] == "FixedLength" and not step["length"]:
            raise ValueError("its pre_tokenizer has the length 0")
    for step in _iterate_nested(_to_json(tokenizer.post_processor), "processors"):
        for part in chain(step.get("single", []), step.get("pair", [])):
            token = part.get("SpecialToken", {}).get("id")
            if token is not None and token not in step["special_tokens"]:
                raise ValueError(f"its post_processor has no ids of {token}")


def _to_json(step: Any) -> dict[str, Any] | None:
    config: dict[str, Any] | None = None if step is None else json.loads(step.__getstate__())
    return config


def _iterate_nested(config: dict[str, Any] | None, steps: str) -> Iterator[dict[str, Any]]:
    if config is not None:
        yield config
        for step in config.get(steps, []):
            yield from _iterate_nested(step, steps)


def add_tokens(tokenizer: Tokenizer, words: Iterable[str], file: str) -> None:
    """Let the tokens that another file of the directory names be tokens of their own, as in ``transformers``.

    A token that has no id in ``tokenizer.json`` is an error.
    """
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for word in words:
        if tokenizer.token_to_id(word) is None:
            raise ModelDirectoryError(
                f"its {file} has a token {word!r} that its tokenizer.json lacks. Make them agree with {SAVE_AGAIN}"
            )
        if word not in known:
            tokenizer.add_special_tokens([word])


def check_templates(special: SpecialTokens, words: int, types: int, length: int) -> None:
    """Reject special tokens, or segments of single texts, without a vector; and more special tokens than positions.

    ``types`` is the number of segment vectors, 0 for no segments; ``length`` tokens of the longest text.
    """
    largest = max(chain(*special.single.ids, *special.pair.ids), default=0)
    if largest >= words:
        raise ValueError(f"it adds a special token with the id {largest:,}; the model has {words:,} word vectors")
    if special.count(1) >= length:
        raise ValueError(f"it adds {special.count(1):,} special tokens to a text; the model reads {length:,} tokens")
    segment = max(chain(special.single.texts, *special.single.segments))
    if 0 < types <= segment:
        raise ValueError(f"it gives a text the segment {segment:,}; the model has {types} of them")


def configure_tokenizer(tokenizer: Tokenizer, options: Mapping[str, Any], name: str) -> None:
    """Change a tokenizer by the options of its directory.

    ``options`` are the contents of ``tokenizer_config.json``; ``name`` is the class of the tokenizer, if they do not
    name it.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    name = str(options.get("tokenizer_class") or name).removesuffix("Fast").removesuffix("Tokenizer")
    special = SpecialTokens.of(tokenizer)
    if name in _BUILT_FROM_OPTIONS:
        _change_steps(tokenizer, options)
        _check_ends(tokenizer, special, options.get("cls_token"), options.get("sep_token"))
    else:
        ends = (options.get(f"{end}_token") if options.get(f"add_{end}_token") else None for end in ("bos", "eos"))
        _check_ends(tokenizer, special, *ends)
    inputs = options.get("model_input_names")
    drops_segments = name in _WITHOUT_SEGMENTS if inputs is None else "token_type_ids" not in inputs
    if drops_segments:
        clear_segments(tokenizer)


def _change_steps(tokenizer: Tokenizer, options: Mapping[str, Any]) -> None:
    for normalizer in iterate_steps(tokenizer.normalizer):
        if isinstance(normalizer, normalizers.BertNormalizer):
            for option in _NORMALIZER.keys() & options.keys():
                if options[option] is not None or option == "strip_accents":
                    setattr(normalizer, _NORMALIZER[option], options[option])
    prefix = options.get("add_prefix_space")
    for step in iterate_steps(tokenizer.pre_tokenizer):
        if isinstance(step, pre_tokenizers.ByteLevel) and prefix is not None:
            step.add_prefix_space = prefix
        if isinstance(step, pre_tokenizers.Metaspace) and prefix is not None:
            step.prepend_scheme = "always" if prefix else "never"


def _check_ends(tokenizer: Tokenizer, special: SpecialTokens, begin: Any, end: Any) -> None:
    """Reject special tokens that ``tokenizer.json`` does not add, where ``transformers`` does."""
    for token, ids in ((begin, special.single.ids[0]), (end, special.single.ids[-1])):
        word = token["content"] if isinstance(token, dict) else token
        if word is not None and tokenizer.token_to_id(word) not in ids:
            raise ModelDirectoryError(
                f"its tokenizer_config.json adds {word} to each text, its tokenizer.json does not. "
                f"Make them agree with {SAVE_AGAIN}"
            )


def clear_segments(tokenizer: Tokenizer) -> None:
    """Give all tokens the segment 0."""
    special = SpecialTokens.of(tokenizer)
    if not any(chain(special.pair.texts, *special.pair.segments)):
        return
    templates = special.single, special.pair
    words = {index: str(tokenizer.id_to_token(index)) for template in templates for index in chain(*template.ids)}
    single, pair = ([[words[index] for index in group] for group in template.ids] for template in templates)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*single[0], "$A", *single[1]],
        pair=[*pair[0], "$A", *pair[1], "$B:0", *pair[2]],
        special_tokens=[(word, index) for index, word in words.items()],
    )
