#!/usr/bin/env bash
# NLTK's way to Chomsky normal form and back drops the Penn Treebank's ADVP|PRT and splits the Arabic Treebank's tags.
#
# Version:  nltk 3.10.4, Python 3.11
# Source:   un_chomsky_normal_form "transforms a tree in Chomsky Normal Form back to its original structure"; it takes
#           each node with "|" in its label for one that it made, and each "+" for two nodes that collapse_unary joined.
#           Both are parameters (childChar, unaryChar), and nothing says that a treebank has such labels. The Penn
#           Treebank has ADVP|PRT, PRT|ADVP, JJ|VBG and NN|NNS, the Arabic Treebank tags such as DET+NOUN+CASE_DEF_GEN
# Expected: the tree as it was, with no call of collapse_unary
# Observed: ADVP|PRT is gone, so its words are children of the verb phrase. A word tagged JJ|VBG has no tag any more;
#           pos() gives it that of the noun phrase. DET+NOUN+CASE_DEF_GEN becomes three nodes above the word, whose tag
#           is now CASE_DEF_GEN. There is no warning; words and their order are right.
# Way out:  childChar and unaryChar that no label has, in both directions, such as "@|@" and "@+@"
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet nltk==3.10.4
cat >check.py <<'PYTHON'
from nltk import Tree

texts = {
    "plain": "(S (NP (PRP He)) (VP (VBD came) (ADVP (RB back)) (NP (NN home))) (. .))",
    "constituent": "(S (NP (PRP He)) (VP (VBD came) (ADVP|PRT (RB back)) (NP (NN home))) (. .))",
    "tag": "(S (NP (DT The) (JJ|VBG growing) (NN firm)) (VP (VBD paid)) (. .))",
    "Arabic": "(S (PP (PREP fy) (NP (DET+NOUN+CASE_DEF_GEN albyt))))",
}
found = {}
for name, text in texts.items():
    original = Tree.fromstring(text)
    careful, tree = original.copy(deep=True), original.copy(deep=True)
    tree.chomsky_normal_form()
    tree.un_chomsky_normal_form()
    careful.chomsky_normal_form(childChar="@|@")
    careful.un_chomsky_normal_form(childChar="@|@", unaryChar="@+@")
    found[name] = tree.pformat(margin=200)
    print(f"{name:12}", found[name], tree.pos())
    assert careful == original and tree.leaves() == original.leaves()
    assert (tree == original) == (name == "plain")
    if name == "tag":
        assert tree.pos()[1] == ("growing", "NP")
    elif name == "Arabic":
        assert tree.pos()[1] == ("albyt", "CASE_DEF_GEN")

assert found["constituent"] == texts["plain"].replace("(ADVP (RB back))", "(RB back)")
assert found["tag"] == texts["tag"].replace("(JJ|VBG growing)", "growing")
assert found["Arabic"] == "(S (PP (PREP fy) (NP (DET (NOUN (CASE_DEF_GEN albyt))))))"
PYTHON
venv/bin/python check.py
