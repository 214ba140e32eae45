#!/usr/bin/env bash
# skops gives a saved classifier other class weights than it had if its classes are True and False.
#
# Version:  skops 0.16.0 with scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, Python 3.11
# Source:   skops' page on persistence presents it as a way to save and load scikit-learn models instead of pickle, and
#           names no keys that it cannot keep. skops/io/_general.py writes a dictionary as JSON, whose keys are texts,
#           and reads a key back as its type of that text: bool("false") is True, and 1 and "1" are one key
# Guess:    written before the run: integer keys are lost (they are kept)
# Expected: a loaded model has the parameters that were saved, as with joblib; or an error, as for keys that are tuples
# Observed: {False: 0.05, True: 1} becomes {True: 1}, and {False: 20} becomes {True: 20}, the weight of the other class.
#           {1: "a", "1": "b"} has one entry. There is no warning and no untrusted type. Predictions are the same, so
#           that a test of them passes, but whoever trains the loaded model on new texts gets another one.
# Way out:  classes 0 and 1, or names; joblib where the file is one's own
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet skops==0.16.0 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 joblib==1.6.0
cat >check.py <<'PYTHON'
import warnings

import joblib
import numpy as np
import skops.io
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score


def load(value):
    data = skops.io.dumps(value)
    assert skops.io.get_untrusted_types(data=data) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return skops.io.loads(data)


changed = {}
examples = [
    {False: 0.05, True: 1},
    {False: 20},
    {1: "a", "1": "b"},
    {0: 0.05, 1: 1},
    {"no": 0.05, "yes": 1},
    {np.int64(0): 0.05, np.int64(1): 1},
    {0.5: "a", 1.5: "b"},
]
for example in examples:
    loaded = load(example)
    print(example, "->", loaded)
    if list(loaded.items()) != list(example.items()):
        changed[str(example)] = loaded
expected = [{True: 1}, {True: 20}, {1: "b"}]
assert changed == dict(zip(map(str, examples), expected)), changed
try:
    skops.io.dumps({(1, 2): "a"})
except TypeError as error:
    print(error)
else:
    raise AssertionError

# a twentieth of the texts is of the rare class
rng = np.random.default_rng(0)
vectors = rng.normal(size=(4000, 5))
rare = vectors[:, 0] + rng.normal(size=4000) > 2.3
for kind, labels in {"bool": rare, "int": rare.astype(int)}.items():
    weights = dict(zip(np.unique(labels).tolist(), (0.05, 1)))
    model = LogisticRegression(class_weight=weights).fit(vectors[:2000], labels[:2000])
    loaded = load(model)
    joblib.dump(model, "model.joblib")
    assert joblib.load("model.joblib").class_weight == weights
    assert (loaded.predict(vectors) == model.predict(vectors)).all()
    recalls = []
    for source in (model, loaded):
        trained = clone(source).fit(vectors[:2000], labels[:2000])
        recalls.append(recall_score(labels[2000:], trained.predict(vectors[2000:])))
    print(f"{kind}: {weights} -> {loaded.class_weight}, recall of the rare class: {recalls[0]:.0%} -> {recalls[1]:.0%}")
    if kind == "bool":
        assert loaded.class_weight == {True: 1} and recalls[1] < 0.4 < 0.7 < recalls[0]
    else:
        assert loaded.class_weight == weights and recalls[0] == recalls[1]
PYTHON
OMP_NUM_THREADS=1 venv/bin/python check.py
