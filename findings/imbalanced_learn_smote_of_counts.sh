#!/usr/bin/env bash
# imbalanced-learn's SMOTE halves made-up texts if word counts are integers, and repeats words 255 times if unsigned.
#
# Version:  imbalanced-learn 0.14.2 with scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, Python 3.11
# Source:   the user guide says that a new sample is x_i + lambda * (x_zi - x_i) with lambda in [0, 1], so that it lies
#           between two samples. imblearn/over_sampling/_smote/base.py subtracts in the type of the counts and casts the
#           sum to it. Version 0.4's changes say that types are preserved; SMOTE's page and the guide do not warn of
#           integers, and scikit-learn's CountVectorizer has int64 by default
# Guess:    written before the run: whole numbers are cut off (unsigned ones were tried in the same run)
# Expected: made-up texts lie between two real ones, so have about as many words, as with float counts; or an error
# Observed: int64: a word that is once in one of the two texts and not in the other is cut off to 0, so a new text has
#           fewer than half of the words. uint8, uint16: 0 - 1 is 255 or 65535, and words occur up to 255 times and over
#           65000 times. BorderlineSMOTE, SVMSMOTE, ADASYN do the same, RandomOverSampler with shrinkage does not. There
#           is no warning.
# Way out:  CountVectorizer(dtype=numpy.float64), or tf-idf
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet imbalanced-learn==0.14.2 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
cat >check.py <<'PYTHON'
import numpy as np
from imblearn.over_sampling import ADASYN, SMOTE, BorderlineSMOTE, RandomOverSampler, SVMSMOTE
from sklearn.feature_extraction.text import CountVectorizer

# 300 texts of 12 words by Zipf's law, 60 of them of the rare class
rng = np.random.default_rng(0)
share = 1 / np.arange(1, 201)
texts = [" ".join(f"w{word}" for word in rng.choice(200, 12, p=share / share.sum())) for _ in range(300)]
labels = np.array([0] * 240 + [1] * 60)


def oversample(sampler, dtype, dense=False):
    """The length of a text and the highest count of a word, in the texts that are made."""
    rows = CountVectorizer(dtype=dtype).fit_transform(texts)
    assert CountVectorizer().fit_transform(texts).dtype == np.int64
    made = sampler.fit_resample(rows.toarray() if dense else rows, labels)[0][len(texts) :]
    made = made if dense else made.toarray()
    assert made.shape[0] > 100
    return made.astype(float).sum(1).mean(), float(made.max()), float(made.min())


highest = CountVectorizer().fit_transform(texts).max()
print("real texts: 12 words, a word at most", highest, "times")
samplers = [SMOTE(random_state=0), BorderlineSMOTE(random_state=0), SVMSMOTE(random_state=0), ADASYN(random_state=0)]
for sampler in samplers:
    for dtype in (np.float64, np.int64, np.uint8, np.uint16):
        for dense in (False, True):
            length, most, least = oversample(sampler, dtype, dense)
            name = f"{type(sampler).__name__} {np.dtype(dtype)} {'dense' if dense else 'sparse'}"
            print(f"{name:29} words in a text: {length:9.1f}, a word at most {most:7.1f} times")
            assert least >= 0
            if dtype is np.float64:
                assert most <= highest and 10 < length < 14
            elif dtype is np.int64:
                assert most <= highest and length < 6
            else:
                assert most > (250 if dtype is np.uint8 else 65000) and length > 100
length, most, _ = oversample(RandomOverSampler(random_state=0, shrinkage=0.1), np.uint8, dense=True)
assert 10 < length < 14 and most < highest + 1
PYTHON
OMP_NUM_THREADS=1 venv/bin/python -W ignore check.py
