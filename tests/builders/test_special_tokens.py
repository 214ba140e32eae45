"""Special tokens: layouts with them against what tokenizers encode, and all columns of pairs."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.builders._layout import Layout
from graphattn.builders._special_tokens import SpecialTokens

WORDS = ["<s>", "</s>", "a", "b", "c"]
TEXTS = [["a"], ["b", "c", "a"], []]
SECONDS = [["c", "b"], [], ["a"]]


def make_tokenizer(single, pair):
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [("<s>", 0), ("</s>", 1)]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    return tokenizer


TEMPLATES = {
    "bert": ("<s> $A </s>", "<s> $A </s> $B:1 </s>:1"),
    "roberta": ("<s> $A </s>", "<s> $A </s> </s> $B </s>"),
    "no end": ("<s> $A", "<s> $A </s> $B"),
    "other ends of pairs": ("<s> $A </s>", "$A:2 </s> </s>:1 $B <s>:3"),
}


def layout_of(tokenizer, texts, **columns):
    sentences = [
        Sentence(text, **{name: values[number] for name, values in columns.items()})
        for number, text in enumerate(texts)
    ]
    ids = [tokenizer.encode(" ".join(text), add_special_tokens=False).ids for text in texts]
    return Layout.of(
        sentences,
        with_cls=False,
        deprel_id=len if "heads" in columns else None,
        with_sentences=True,
        with_links="links" in columns,
        features={"id": ([np.array(row, np.int32) for row in ids], 0)},
    )


def test_a_tokenizer_without_special_tokens():
    assert SpecialTokens.of(make_tokenizer("$A", "$A $B")).count(2) == 0


def test_a_tokenizer_that_knows_no_latin_letters():
    tokenizer = Tokenizer(models.BPE({"<s>": 0, "</s>": 1, "\u6771": 2}, []))
    tokenizer.add_special_tokens(["</s>"])
    special = [("<s>", 0), ("</s>", 1)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=special)
    assert SpecialTokens.of(tokenizer).single.ids == ((0,), (1,))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("pairs", [False, True])
def test_ids_and_segments_equal_the_tokenizer(template, pairs):
    tokenizer = make_tokenizer(*TEMPLATES[template])
    special = SpecialTokens.of(tokenizer)
    layouts = [layout_of(tokenizer, TEXTS)] + [layout_of(tokenizer, SECONDS)] * pairs
    layout = special.add(layouts)
    inputs = (
        [tuple(" ".join(part) for part in parts) for parts in zip(TEXTS, SECONDS, strict=True)]
        if pairs
        else [" ".join(t) for t in TEXTS]
    )
    expected = tokenizer.encode_batch(inputs)
    assert layout.features["id"].tolist() == [index for encoding in expected for index in encoding.ids]
    assert layout.lengths.tolist() == [len(encoding.ids) for encoding in expected]
    masks = [bool(is_special) for encoding in expected for is_special in encoding.special_tokens_mask]
    assert layout.features["special"].tolist() == masks
    assert layout.features["segment"].tolist() == [kind for encoding in expected for kind in encoding.type_ids]
    assert special.count(1 + pairs) == len(expected[0].ids) - len(TEXTS[0]) - pairs * len(SECONDS[0])


@pytest.mark.parametrize(("template", "gap"), [("bert", 1), ("roberta", 2)])
def test_columns_of_words(template, gap):
    tokenizer = make_tokenizer(*TEMPLATES[template])
    first = layout_of(tokenizer, [["a", "b"]], word_ids=[[0, 0]], heads=[[0]], sentence_ids=[[0]], links=[[(0, 0)]])
    second = layout_of(
        tokenizer, [["c", "a", "b"]], word_ids=[[0, 1, 1]], heads=[[2, 0]], sentence_ids=[[0, 1]], links=[[(0, 1)]]
    )
    layout = SpecialTokens.of(tokenizer).add([first, second])
    # <s> ab </s> c ab </s>, or two </s> between the texts
    between, after = range(2, 2 + gap), 2 + gap
    assert layout.word_ids.tolist() == [0, 1, 1, *between, after, after + 1, after + 1, after + 2]
    assert layout.word_counts.tolist() == [after + 3]
    assert layout.heads.tolist() == [-1, -1, *[-1] * gap, after + 1, -1, -1]
    assert layout.sentence_ids.tolist() == [0, 0, *[0] * gap, 1, 2, 2]
    assert layout.links.values.tolist() == [[1, 1], [after, after + 1]]


def test_a_batch_equals_its_texts_alone():
    tokenizer = make_tokenizer(*TEMPLATES["roberta"])
    special, together = SpecialTokens.of(tokenizer), [layout_of(tokenizer, TEXTS), layout_of(tokenizer, SECONDS)]
    joined = special.add(together)
    for number in range(len(TEXTS)):
        alone, taken = special.add([layout.take([number]) for layout in together]), joined.take([number])
        for name in ("lengths", "word_counts", "word_ids", "sentence_ids"):
            assert getattr(alone, name).tolist() == getattr(taken, name).tolist()
        for name in joined.features:
            assert alone.features[name].tolist() == taken.features[name].tolist()


def test_edges_cross_the_texts_of_a_pair():
    tokenizer = make_tokenizer(*TEMPLATES["bert"])
    layout = SpecialTokens.of(tokenizer).add([layout_of(tokenizer, [["a"]]), layout_of(tokenizer, [["b", "c"]])])
    assert TextGraphBuilder("all", cls=False).text_batch(layout).edges["token", "all", "token"].num_edges == 36
