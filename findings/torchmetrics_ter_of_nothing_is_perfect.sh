#!/usr/bin/env bash
# For TorchMetrics an empty translation has a translation edit rate of 0, which is perfect, and does not count in chrF.
#
# Version:  torchmetrics 1.9.0 with torch 2.13.0 (CPU), sacrebleu 2.6.0, Python 3.11
# Source:   torchmetrics/functional/text/ter.py and chrf.py, whose pages name sacrebleu as their reference
# Expected: an empty output for a reference of n words has n edits, so a TER of 100 %, and lowers chrF, as in sacrebleu
# Observed: a translator that leaves out the sentences that it cannot translate is better in TER than one that gets half
#           of their words right: 0 against 33 %, where sacrebleu has 67 against 33 %. Its chrF is 100, sacrebleu's 34.
#           The word error rate counts the empty output.
# Way out:  sacrebleu, or count empty outputs before TorchMetrics' TER or chrF
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 torchmetrics==1.9.0 sacrebleu==2.6.0 numpy==2.4.6
cat >check.py <<'PYTHON'
import sacrebleu
from torchmetrics.text import CHRFScore, TranslationEditRate, WordErrorRate

references = ["a man sleeps", "two dogs run on the beach"]
outputs = {
    "complete": references,
    "half right": ["a man sleeps", "two dogs walk at a beach"],
    "left out": ["a man sleeps", ""],
}
measured = {}
for name, output in outputs.items():
    pairs = [[reference] for reference in references]
    scores = {
        "TER": TranslationEditRate()(output, pairs),
        "chrF": CHRFScore(n_word_order=0)(output, pairs),
        "WER": WordErrorRate()(output, references),
    }
    measured[name] = {metric: round(100 * score.item()) for metric, score in scores.items()}
    expected = {
        "TER": sacrebleu.corpus_ter(output, [references]).score,
        "chrF": sacrebleu.corpus_chrf(output, [references]).score,
    }
    expected = {metric: round(score) for metric, score in expected.items()}
    print(f"{name:10}", "TorchMetrics:", measured[name], "sacrebleu:", expected)
    if name == "left out":
        assert (expected, measured[name]) == ({"TER": 67, "chrF": 34}, {"TER": 0, "chrF": 100, "WER": 67})
    else:
        assert expected.items() <= measured[name].items()

assert measured["half right"]["TER"] == 33
assert TranslationEditRate()([""], [["two dogs run on the beach"]]) == 0
PYTHON
venv/bin/python -W ignore check.py
