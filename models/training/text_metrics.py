"""Metrics of generated texts, by sacrebleu and rouge-score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from graphattn.optional_packages import import_optional

References = Sequence[str | Sequence[str]]
"""One or several references for each text."""

ROUGE = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}
"""rouge-score's name of a metric -> ours."""


def text_metrics(references: References, texts: Sequence[str]) -> dict[str, float]:
    """BLEU and chrF of a whole corpus, and means of ROUGE-1, ROUGE-2 and ROUGE-L (F1, stemmed), all in percent.

    With several references, ROUGE uses the best one of each text; BLEU and chrF use all.

    Parameters
    ----------
    references : of each text
    texts : generated texts, not tokenized

    Raises
    ------
    ConfigError
        when sacrebleu or rouge-score is not installed

    Examples
    --------
    >>> figures = text_metrics(["A dog runs over the grass."], ["A dog runs over grass."])
    >>> {name: round(value, 1) for name, value in figures.items()}
    {'bleu': 51.2, 'chrf': 71.5, 'rouge_1': 90.9, 'rouge_2': 66.7, 'rouge_l': 90.9}
    """
    streams = _streams(references)
    figures = {name: metric.corpus_score(list(texts), streams).score for name, metric in _sacrebleu().items()}
    return {**figures, **_rouge(references, texts)}


def signatures(references: References, texts: Sequence[str]) -> dict[str, str]:
    """Signatures of BLEU and chrF by sacrebleu, to report in papers."""
    metrics = _sacrebleu()
    for metric in metrics.values():
        metric.corpus_score(list(texts), _streams(references))
    return {name: metric.get_signature().format() for name, metric in metrics.items()}


def compare_systems(
    references: References, systems: Mapping[str, Sequence[str]], *, samples: int = 1000
) -> dict[str, dict[str, dict[str, float]]]:
    """Test whether systems differ from the first: paired bootstrap resampling (Koehn 2004), by sacrebleu.

    Parameters
    ----------
    references : of each text
    systems : name -> its texts; the first is the baseline
    samples : number of samples of the corpus; the seed is fixed

    Returns
    -------
    Metric -> system -> ``score``, and ``mean`` and ``half_width`` of its 95 % interval; except for the baseline also
    ``p_value``. It is 1 for equal scores, where sacrebleu returns its smallest value.

    Examples
    --------
    >>> references = [f"the dog number {n} runs" for n in range(40)]
    >>> worse = [text if n % 2 else "a cat" for n, text in enumerate(references)]
    >>> table = compare_systems(references, {"good": references, "worse": worse})
    >>> round(table["bleu"]["good"]["score"]), table["bleu"]["worse"]["p_value"] < 0.01
    (100, True)
    """
    metrics = _sacrebleu(references=_streams(references))
    from sacrebleu.significance import PairedTest

    named: list[tuple[str, Sequence[str]]] = [(name, list(texts)) for name, texts in systems.items()]
    results: Any
    _, results = PairedTest(named, metrics, references=None, test_type="bs", n_samples=samples)()
    columns = zip(metrics, list(results.values())[1:], strict=True)  # the first has the names
    return {
        metric: {name: _row(result, column[0].score) for name, result in zip(systems, column, strict=True)}
        for metric, column in columns
    }


def bleu_interval(references: References, texts: Sequence[str], *, samples: int = 1000) -> tuple[float, float]:
    """The 95 % bootstrap interval of BLEU that :func:`compare_systems` also reports, by sacrebleu.

    Parameters
    ----------
    references, texts : as for :func:`text_metrics`
    samples : number of samples of the corpus; the seed is fixed
    """
    score = _sacrebleu()["bleu"].corpus_score(list(texts), _streams(references), n_bootstrap=samples)
    return float(score._mean - score._ci), float(score._mean + score._ci)


def _row(result: Any, baseline: float) -> dict[str, float]:
    row = {"score": float(result.score), "mean": float(result.mean), "half_width": float(result.ci)}
    if result.p_value is None:
        return row
    return {**row, "p_value": 1.0 if result.score == baseline else float(result.p_value)}


def _sacrebleu(**options: Any) -> dict[str, Any]:
    metrics = import_optional("sacrebleu.metrics", "BLEU and chrF need", "translation")
    return {"bleu": metrics.BLEU(**options), "chrf": metrics.CHRF(**options)}


def _rouge(references: References, texts: Sequence[str]) -> dict[str, float]:
    rouge = import_optional("rouge_score.rouge_scorer", "ROUGE needs", "translation")
    scorer = rouge.RougeScorer(list(ROUGE), use_stemmer=True)
    sums = dict.fromkeys(ROUGE.values(), 0.0)
    for reference, text in zip(references, texts, strict=True):
        scores = scorer.score_multi(_as_list(reference), text)
        for key, name in ROUGE.items():
            sums[name] += scores[key].fmeasure
    return {name: 100 * total / max(1, len(texts)) for name, total in sums.items()}


def _streams(references: References) -> list[list[str | None]]:
    """Transpose references for sacrebleu: all first ones, all second ones ...; None if a text has fewer."""
    return [list(stream) for stream in zip_longest(*map(_as_list, references))] or [[]]


def _as_list(reference: str | Sequence[str]) -> list[str]:
    return [reference] if isinstance(reference, str) else list(reference)
