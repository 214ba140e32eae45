#!/usr/bin/env bash
# A loose tolerance makes scikit-learn's logistic regression on tf-idf return zeros, without a warning.
#
# Version:  scikit-learn 1.9.1 with scipy 1.17.1, numpy 2.4.6, Python 3.11
# Source:   scikit-learn's page of LogisticRegression calls tol the "tolerance for stopping criteria" (1e-4 by default);
#           ConvergenceWarning is for fits that end before they converge
# Expected: tol=0.01 saves some iterations and costs a little accuracy, as with liblinear
# Observed: lbfgs, the default, and newton-cg stop before their first iteration: all weights are 0, accuracy is that of
#           guessing, and there is no warning. Both compare the tolerance with the largest gradient of the mean loss, and
#           with thousands of features in rows of length 1 that is below 0.01 at the start. Liblinear scales by the
#           first gradient, and gets the same accuracy with either tolerance.
# Way out:  leave tol at 1e-4 for sparse rows of length 1, or take liblinear to save time
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
cat >check.py <<'PYTHON'
import warnings

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

# texts of 20 words by Zipf's law, two of which tell the class
rng = np.random.default_rng(0)
words = np.array([f"w{number}" for number in range(8000)])
share = 1 / np.arange(1, 8001)
texts, labels = [], np.arange(5000) % 2
for label in labels:
    ids = rng.choice(8000, 20, p=share / share.sum())
    ids[:2] = 2 * rng.integers(0, 1000, 2) + label
    texts.append(" ".join(words[ids]))
rows = TfidfVectorizer(token_pattern=r"\S+").fit_transform(texts)

accuracies = {}
for solver in ("lbfgs", "newton-cg", "liblinear"):
    for tol in (1e-4, 1e-2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = LogisticRegression(C=10, solver=solver, tol=tol, max_iter=1000).fit(rows[:4000], labels[:4000])
        accuracies[solver, tol] = accuracy = model.score(rows[4000:], labels[4000:])
        largest = abs(model.coef_).max()
        print(f"{solver:9s} tol={tol:g}: {model.n_iter_[0]} iterations, largest weight {largest:.2f}, {accuracy:.1%}")
        assert not caught
        assert (largest == 0) == (tol == 1e-2 and solver != "liblinear")
for solver in ("lbfgs", "newton-cg"):
    assert accuracies[solver, 1e-2] == 0.5 < 0.65 < accuracies[solver, 1e-4]
assert abs(accuracies["liblinear", 1e-2] - accuracies["liblinear", 1e-4]) < 0.01
PYTHON
OMP_NUM_THREADS=1 venv/bin/python check.py
