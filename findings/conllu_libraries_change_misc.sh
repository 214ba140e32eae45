#!/usr/bin/env bash
# pyconll writes the number 3,000 of a CoNLL-U file as 000,3, and conllu cuts a value at its second "=".
#
# Version:  pyconll 3.3.1, conllu 6.0.0, udapi 0.5.2, Python 3.11
# Source:   MISC, the last column of CoNLL-U, has any attributes between bars; UD English EWT has CorrectForm=3,000 there.
#           pyconll splits values at commas into a set, which it sorts when it writes; conllu takes what is between the
#           first and the second "="
# Expected: a file that is read and written again is the same, as with udapi
# Observed: pyconll: "3,000" becomes "000,3", and "a,a" becomes "a". conllu: "Gloss=a=b" becomes "Gloss=a", and a comment
#           without "=" is gone. Both: of an attribute that occurs twice the first is gone. None of them warns.
# Way out:  udapi where files are written, or copy the columns that are not changed as they were read
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet pyconll==3.3.1 conllu==6.0.0 udapi==0.5.2
cat >check.py <<'PYTHON'
import conllu
import pyconll
from udapi.core.document import Document


def write_udapi(text):
    document = Document()
    document.from_conllu_string(text)
    return document.to_conllu_string()


libraries = {
    "pyconll": lambda text: pyconll.load_from_string(text).conll(),
    "conllu": lambda text: "".join(sentence.serialize() for sentence in conllu.parse(text)),
    "udapi": write_udapi,
}
values = ["CorrectForm=3,000", "Gloss=a,a", "Gloss=a=b", "Ref=1|Ref=2"]
changed = {}
for name, write in libraries.items():
    for value in values:
        text = f"# sent_id = 1\n# checked\n# text = 3,\n1\t3,\t3000\tNUM\tCD\tNumType=Card\t0\troot\t0:root\t{value}\n\n"
        comments, word = write(text).strip().rsplit("\n", 1)
        found = word.split("\t")[9]
        print(f"{name:8} {value:18} {found:18} {'# checked' in comments}")
        if found != value:
            changed[name, value] = found
        assert ("# checked" in comments) == (name != "conllu")
assert changed == {
    ("pyconll", "CorrectForm=3,000"): "CorrectForm=000,3",
    ("pyconll", "Gloss=a,a"): "Gloss=a",
    ("pyconll", "Ref=1|Ref=2"): "Ref=2",
    ("conllu", "Gloss=a=b"): "Gloss=a",
    ("conllu", "Ref=1|Ref=2"): "Ref=2",
}, changed
PYTHON
venv/bin/python -W ignore check.py
