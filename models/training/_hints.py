"""Hints for a person who trains a model: what probably went wrong, and what would help."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graphattn.builders._stored import is_stored
from graphattn.builders.readers._fields import is_bracketed, parse_list
from graphattn.builders.readers._samples import LIKELY_HEADERS
from graphattn.builders.readers._unlabelled import find_marks
from graphattn.exceptions import Hint, verbatim
from graphattn.models._estimators.label_set import plain_label

MANY_NUMBERS = 20
"""From so many classes, numbers with fractions are probably quantities."""
DOTLESS_SHARE = 0.05
"""From this share of words with a dotless i, texts are probably Turkish or Azerbaijani."""
FEW_EXAMPLES = 10_000
"""From fewer examples, word vectors are learnt badly."""
_SEPARATORS = ";,|"
"""Characters that often separate several labels in a field."""
_MISSPELT_ENTITY = re.compile(r"[biesluwm][-_].+|.+[-_][biesluwm]", re.IGNORECASE)
_SHOWN_CLASSES = 5
_WHOLE_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]{0,14})(\.0*)?")
MIN_DEV = 20
"""Hints about predictions need this many items of the dev set."""


def _agree(count: int, verb: str) -> str:
    """A verb in the third person, as it agrees with a count: occurs, or occur."""
    return verb if count == 1 else {"is": "are", "has": "have"}.get(verb, verb.removesuffix("s"))


def hint_at_vectors(examples: int) -> Hint | None:
    """A hint for a model that learns word vectors from few examples."""
    if examples >= FEW_EXAMPLES:
        return None
    return Hint(
        f"{examples:,} examples are few to learn word vectors from; a pretrained model usually helps most: "
        "{pretrained} OWNER/NAME on the Hugging Face hub, such as sentence-transformers/all-MiniLM-L6-v2 "
        "(English); faster to train, and better than none, are pretrained vectors: {vectors} FILE, from GloVe "
        "(English, https://nlp.stanford.edu/projects/glove) or fastText (157 languages, https://fasttext.cc)",
        options=("pretrained", "vectors"),
    )


def hint_at_quantities(classes: Sequence[Hashable]) -> Hint | None:
    """A hint for classes that are probably quantities."""
    try:
        numbers = [float(str(name)) for name in classes]
    except ValueError:
        return None
    if len(numbers) < MANY_NUMBERS or all(number.is_integer() for number in numbers):
        return None
    return Hint(
        f"the labels are {len(numbers):,} different numbers, each a class of its own; to predict numbers, use "
        "graphattn train regress (TextRegressor in Python)"
    )


def hint_at_single_labels(labels: Iterable[Hashable]) -> Hint | None:
    """A hint for labels that occur once: most do if they are texts, few if they are slips or rare classes."""
    counts = Counter(labels)
    single, total = [label for label, count in counts.items() if count == 1], counts.total()
    if total < MIN_DEV or not single:
        return None
    if 2 * len(single) <= total:
        shown = verbatim(", ".join(repr(plain_label(label)) for label in single[:3])) + ", ..." * (len(single) > 3)
        named = any(isinstance(label, str) and label.lower() in LIKELY_HEADERS for label in single)
        return Hint(
            f"{len(single):,} of {len(counts):,} labels {_agree(len(single), 'occurs')} only once ({shown}), "
            "too rarely to be learned"
            + ("; they may be slips, or the names of columns in files that were joined" if named else "")
        )
    return Hint(
        f"{len(single):,} of {total:,} labels occur only once, as texts do; are {{text_column}} and {{label_column}} "
        "swapped (the inputs and labels in Python)?",
        options=("text_column", "label_column"),
    )


def hint_at_misspelt_entities(tags: Iterable[str]) -> Hint | None:
    """A hint for plain tags that are those of entities in another spelling, such as ``b-per`` or ``PER-B``."""
    distinct = sorted({*tags})
    typed = [tag for tag in distinct if tag not in ("O", "o")]
    if not typed or len(typed) == len(distinct) or not all(map(_MISSPELT_ENTITY.fullmatch, typed)):
        return None
    return Hint(
        f"tags such as {verbatim(repr(typed[0]))} are read as plain tags, which do not mark entities; write B-TYPE, "
        "I-TYPE and O if they do"
    )


def hint_at_alike_classes(names: Iterable[Hashable], known: Iterable[Hashable] = ()) -> Hint | None:
    """A hint for classes that are one number, or differ in nothing but upper and lower case or blanks.

    ``names`` are the classes, each as often as it occurs; ``known`` are those of an earlier training.
    """
    of_labels = Counter[Hashable](dict.fromkeys(known, 0))
    of_labels.update(names)  # 1 and 1.0 are one class
    counts = {str(name): count for name, count in of_labels.items()}
    alike: dict[str | float, list[str]] = {}
    for name in counts:
        bare = "".join(name.split())
        if _WHOLE_NUMBER.fullmatch(bare):
            alike.setdefault(float(bare), []).append(name)
        else:  # a and A may be different answers
            alike.setdefault(bare.casefold() if len(bare) > 1 else bare, []).append(name)
    groups = [sorted(group, key=counts.__getitem__, reverse=True) for group in alike.values() if len(group) > 1]
    if not groups:
        return None
    shown = [" and ".join(f"{name!r} ({counts[name]:,})" for name in group) for group in groups[:_SHOWN_CLASSES]]
    more = f" and {len(groups) - len(shown):,} more" if len(groups) > len(shown) else ""
    listed = verbatim(", ".join(shown)) + more
    return Hint(f"the labels {listed} are different classes; if they mean the same, use one spelling")


def hint_at_dotless_i(words: Collection[str]) -> Hint | None:
    """A hint for distinct Turkish or Azerbaijani words that lower case does not unite, since capital I is read as i."""
    if sum("\u0131" in word for word in words) < DOTLESS_SHARE * len(words):
        return None
    divided = [word for word in words if "I" in word and word.replace("I", "\u0131").lower() in words]
    if not divided:
        return None
    lower = divided[0].replace("I", "\u0131").lower()
    return Hint(
        f"{len(divided):,} words with a capital I, such as {divided[0]!r}, are not known as those with \u0131, such as "
        f"{lower!r}; if the texts are Turkish or Azerbaijani, write small letters first, also in texts to predict: "
        "sed 's/\u0130/i/g; s/I/\u0131/g'"
    )


def hint_at_invisible_ends(classes: Sequence[Hashable]) -> Hint | None:
    """A hint for names of classes that begin or end with a character that nobody sees."""
    hidden = [
        name
        for name in classes
        if isinstance(name, str) and name and (_is_invisible(name[0]) or _is_invisible(name[-1]))
    ]
    if not hidden:
        return None
    shown = ", ".join(map(ascii, hidden[:3])) + (", ..." if len(hidden) > 3 else "")
    return Hint(
        f"the names of {len(hidden)} of {len(classes)} classes begin or end with invisible characters ({shown}); they "
        "are not the classes without these, which you may want: delete the characters from the labels"
    )


def _is_invisible(character: str) -> bool:
    """Whether a character has no ink; emoji of flags may end with tags (U+E007F)."""
    is_format = unicodedata.category(character) in ("Cc", "Cf") and not "\U000e0020" <= character <= "\U000e007f"
    return is_format or character in "\u034f\u115f\u1160\u2800\u3164\uffa0"


def hint_at_marks(labels: Iterable[Hashable], *, tags: bool = False) -> Hint | None:
    """A hint for classes that usually stand for no label."""
    counts = Counter(labels)
    marks = find_marks(counts, tags=tags)
    if not marks:
        return None
    what = "tag" if tags else "label"
    named = " and ".join(
        f"{counts[mark]:,} of {counts.total():,} {what}s {_agree(counts[mark], 'is')} {plain_label(mark)!r}"
        for mark in marks
    )
    flags = " ".join(f"{{drop_label={mark}}}" for mark in marks)
    return Hint(
        f"{named}, which often means that there is no {what}; if so, leave them out, in files with {flags}",
        options=("drop_label",),
    )


def hint_at_lists(labels: Sequence[Hashable], classes: Sequence[Hashable]) -> Hint | None:
    """A hint for classes that are lists, as tables hold several labels of a text."""
    lists = {name for name in classes if isinstance(name, str) and is_bracketed(name) and parse_list(name) is not None}
    if not lists:
        return None
    count, shown = sum(label in lists for label in labels), verbatim(min(lists))
    return Hint(
        f"{count:,} of {len(labels):,} labels {'is a list' if count == 1 else 'are lists'}, such as {shown}, each a "
        "class of its own; "
        "{multilabel=True} reads their items as labels",
        options=("multilabel",),
    )


def hint_at_joined_names(labels: Sequence[Hashable], classes: Collection[Hashable]) -> Hint | None:
    """A hint for classes that are names of other classes with a separator between them."""
    known = {*classes}
    for separator in _SEPARATORS:
        joined = {
            name
            for name in classes
            if isinstance(name, str) and separator in name and {*map(str.strip, name.split(separator))} <= known
        }
        if joined:
            count, shown = sum(label in joined for label in labels), verbatim(repr(min(joined)))
            return Hint(
                f"{count:,} of {len(labels):,} labels, such as {shown}, {_agree(count, 'joins')} other labels, each "
                "a class of its own; "
                "for several labels of a text, separate them: in files with "
                f"{{label_separator={shlex.quote(separator)}}}, in Python as tuples with multilabel=True",
                options=("label_separator",),
            )
    return None


def hint_at_forgotten_classes(names: Iterable[Hashable], known: Collection[Hashable]) -> Hint | None:
    """A hint for classes of the model to continue from that do not occur in the training set."""
    present = set(map(plain_label, names))
    missing = [name for name in known if name not in present]
    if not missing:
        return None
    shown = verbatim(", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else ""))
    return Hint(
        f"{len(missing)} of the {len(known)} classes that the model knows {_agree(len(missing), 'has')} no example in "
        "the training set "
        f"({shown}); it will forget them: add examples of theirs, such as the previous training set"
    )


def hint_at_single_class(
    gold: Sequence[Hashable], predicted: Sequence[Hashable], *, has_vectors: bool = False
) -> Hint | None:
    """A hint for predictions that are nearly all equal, unless the gold labels nearly are, too."""
    if len(predicted) < MIN_DEV:
        return None
    ((top, count),) = Counter(predicted).most_common(1)
    share, expected = count / len(predicted), sum(label == top for label in gold) / len(gold)
    if share < 0.95 or 1 - share >= 0.5 * (1 - expected):
        return None
    vectors = "" if has_vectors else "fine-tune a pretrained model ({pretrained}) or add word vectors ({vectors}), "
    return Hint(
        f"{share:.0%} of the predictions on the dev set are {verbatim(repr(plain_label(top)))}, which has "
        f"{expected:.0%} of its labels; train longer, try another {{learning_rate}}, {vectors}or use "
        "{class_weight=balanced}",
        options=("learning_rate", "pretrained", "vectors", "class_weight"),
    )


def hint_at_empty_inputs(columns: Sequence[Sequence[Any]]) -> Hint | None:
    """A hint for pairs with a text without words, or more than a tenth of single texts without words."""
    names = ("first texts", "second texts") if len(columns) > 1 else ("texts",)
    counts = {name: _count_empty(column) for name, column in zip(names, columns, strict=True)}
    empty = [f"{count:,} of {len(columns[0]):,} {name}" for name, count in counts.items() if count]
    if not empty or (len(columns) == 1 and 10 * counts["texts"] <= len(columns[0])):
        return None
    return Hint(
        f"{' and '.join(empty)} {_agree(sum(counts.values()), 'is')} empty; leave them out, or check the columns"
    )


def _count_empty(texts: Sequence[Any]) -> int:
    if is_stored(texts):
        return int(np.count_nonzero(texts.num_words() == 0))
    return sum(not (text.strip() if isinstance(text, str) else len(text)) for text in texts)


def hint_at_empty_texts(texts: Sequence[str]) -> Hint | None:
    """A hint for a translator of whose outputs more than a tenth are empty."""
    empty = sum(not text.strip() for text in texts)
    if len(texts) < MIN_DEV or empty <= 0.1 * len(texts):
        return None
    return Hint(
        f"{empty} of {len(texts)} outputs for the dev set are empty; train longer, or set {{min_length=1}} or a "
        "larger {length_penalty}",
        options=("min_length", "length_penalty"),
    )


def hint_at_tokenizer(tokenizer: str) -> Hint:
    """A hint for BLEU by a tokenizer that was chosen by the script of the dev set's references."""
    return Hint(
        f"BLEU counts the tokens of sacrebleu's {tokenizer!r}, for the script of the dev set's references; "
        "choose others with {bleu_tokenizer}",
        options=("bleu_tokenizer",),
    )


def hint_at_short_references(metric: str) -> Hint:
    """A hint for a dev set whose best epoch chrF chooses, since another metric would hardly tell epochs apart."""
    return Hint(
        f"most references of the dev set are too short for {metric}, which would be 0 for nearly all outputs with an "
        "error, so chrF chooses the best epoch; choose another {metric}, or keep chrF",
        options=("metric",),
    )


def hint_at_loss(history: Sequence[Mapping[str, float]], learning_rate: float) -> Hint | None:
    """A hint for a loss that has not gone down by at least 1 % after the first of three or more epochs."""
    losses = [row["train_loss"] for row in history]
    if len(losses) < 3 or losses[0] < 0.1 or min(losses[1:]) < 0.99 * losses[0]:
        return None
    return Hint(
        f"the loss has not gone down ({losses[0]:.4g} in epoch 1, {losses[-1]:.4g} in epoch {len(losses)}); try "
        f"another {{learning_rate}} (now {learning_rate:g}), first a tenth of it, and check that labels belong to "
        "their texts",
        options=("learning_rate",),
    )
