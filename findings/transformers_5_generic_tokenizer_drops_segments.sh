#!/usr/bin/env bash
# A tokenizer that transformers 4 saved under the class PreTrainedTokenizerFast loses its segments in transformers 5.
#
# Version:  transformers 4.57.6 with tokenizers 0.22.2 writes, transformers 5.24.0 with tokenizers 0.23.3 reads; no torch
# Source:   transformers 4: PreTrainedTokenizerBase.model_input_names lists token_type_ids; transformers 5: the class
#           is read as TokenizersBackend, whose model_input_names do not
# Expected: the same directory gives the same inputs: ids, attention mask and token_type_ids with 1 for the second text
# Observed: transformers 5 returns the same ids and no token_type_ids, without a warning. A BERT that gets none takes
#           segment 0 for both texts, so classifiers of pairs answer from other states than those they learnt from.
# Way out:  "model_input_names": ["input_ids", "token_type_ids", "attention_mask"] in tokenizer_config.json, or
#           return_token_type_ids=True
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv four
python3 -m venv five
four/bin/pip install --quiet transformers==4.57.6 tokenizers==0.22.2
five/bin/pip install --quiet transformers==5.24.0 tokenizers==0.23.3
cat >write.py <<'PYTHON'
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "dog", "barks"]
tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained("saved")
PYTHON
cat >read.py <<'PYTHON'
import json
import sys

from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("saved")
asked = tokenizer("a dog", "barks", return_token_type_ids=True)["token_type_ids"]
with open(sys.argv[1], "w") as file:
    json.dump({"class": type(tokenizer).__name__, "inputs": dict(tokenizer("a dog", "barks")), "asked": asked}, file)
PYTHON
four/bin/python write.py
grep '"tokenizer_class"' saved/tokenizer_config.json
four/bin/python read.py four.json
five/bin/python read.py five.json
cat >check.py <<'PYTHON'
import json

four, five = (json.load(open(f"{name}.json")) for name in ("four", "five"))
print("transformers 4:", four)
print("transformers 5:", five)
ids, mask, segments = [2, 4, 5, 3, 6, 3], [1] * 6, [0, 0, 0, 0, 1, 1]
assert four["class"] == "PreTrainedTokenizerFast"
assert four["inputs"] == {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}
assert five["class"] == "TokenizersBackend"
assert five["inputs"] == {"input_ids": ids, "attention_mask": mask}
assert four["asked"] == five["asked"] == segments
PYTHON
python3 check.py
