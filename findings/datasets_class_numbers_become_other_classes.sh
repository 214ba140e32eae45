#!/usr/bin/env bash
# Hugging Face's datasets renumbers classes 0 to 11, and reads a number that is no class name as the place of another.
#
# Version:  datasets 5.2.0 with pyarrow 26.0.1, Python 3.11
# Source:   the documentation says that class_encode_column casts a column to ClassLabel, and that str2int turns a class
#           name into its integer. datasets/features/features.py: a text that is no name is tried as an integer;
#           datasets/arrow_dataset.py: class names are sorted as texts, also those of a column of integers
# Expected: a column of the integers 0 to 11 keeps them; casting a class that the names lack is an error, as it is for 6
# Observed: after class_encode_column, which prepares a stratified split, 2 is 4, 10 is 2 and 11 is 3, as "10" comes
#           before "2" (the integers 0 to 9 alone keep their values). With the names of training texts of 1, 2, 4 and 5
#           stars, a test text of "3" stars gets the label 3, which is the name "5". There is no warning.
# Way out:  cast_column(column, ClassLabel(names=[str(number) for number in range(12)])) for integers; look for texts
#           that are not in feature.names before casting
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export HF_HOME="$folder"
python3 -m venv venv
venv/bin/pip install --quiet datasets==5.2.0 pyarrow==26.0.1 numpy==2.4.6 pandas==3.1.1
cat >check.py <<'PYTHON'
import datasets
from datasets import ClassLabel, Dataset

datasets.disable_progress_bars()

topics = Dataset.from_dict({"topic": list(range(12))})
encoded = topics.class_encode_column("topic")
named = topics.cast_column("topic", ClassLabel(names=[str(number) for number in range(12)]))
print("topics:", topics["topic"][:])
print("class_encode_column:", encoded["topic"][:], "of", encoded.features["topic"].names)
assert encoded["topic"][:] == [0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 2, 3]
assert named["topic"][:] == topics["topic"][:]
few = Dataset.from_dict({"topic": list(range(10))}).class_encode_column("topic")
assert few["topic"][:] == list(range(10))

training = Dataset.from_dict({"stars": ["1", "2", "4", "5"]}).class_encode_column("stars")
stars = training.features["stars"]
test = ["1", "3", "4"]
labels = Dataset.from_dict({"stars": test}).cast_column("stars", stars)["stars"][:]
print("names:", stars.names, "test:", test, "read as:", stars.int2str(labels))
assert stars.names == ["1", "2", "4", "5"]
assert stars.int2str(labels) == ["1", "5", "4"]
for unknown in ("6", "three"):
    try:
        stars.str2int(unknown)
    except ValueError as error:
        print(error)
    else:
        raise AssertionError(unknown)
PYTHON
venv/bin/python -W ignore check.py
