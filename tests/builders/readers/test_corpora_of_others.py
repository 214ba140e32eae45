"""The table "Corpora of other people" in docs/build.md: each command reads a small file in that format."""

import re
import shlex
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphattn.builders.sentence import Example, Sentence
from graphattn.exceptions import Hint
from graphattn.experiments.cli.training_plan import TrainingPlan, training_flags
from graphattn.models import TASKS

TABLE = (
    Path(__file__)
    .parents[3]
    .joinpath("docs/build.md")
    .read_text(encoding="utf-8")
    .partition("\n## Corpora of other")[2]
)
COMMANDS = dict(re.findall(r"^\| (?!---)(.+?) \| `(graphattn .+)` \|$", TABLE, re.MULTILINE))
UD = "1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
# Row -> content of its files, in the order of the command; the first item, or the first source and target.
ROWS = {
    "GLUE: SST-2": (
        ["sentence\tlabel\nso good , indeed\t1\nso bad\t0\na film\t1\n"],
        Example("so good , indeed", label="1"),
    ),
    "GLUE: MRPC": (
        ['Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t70\t71\tHe said "no.\tHe said so.\n'],
        Example('He said "no.', "He said so.", "1"),
    ),
    "GLUE: QNLI": (
        ["index\tquestion\tsentence\tlabel\n0\tWho sang?\tShe sang.\tentailment\n"],
        Example("Who sang?", "She sang.", "entailment"),
    ),
    "GLUE: STS-B (`.csv` with tabs, more fields on some lines)": (
        [
            'main\tMSR\t2012\t01\t5.0\tA plane, "so\tA jet.\nmain\tMSR\t2012\t02\t3.8\tA man.\tA boy.\tPASCAL\tflickr\n'
            * 2
        ],
        Example('A plane, "so', "A jet.", "5.0"),
    ),
    "SICK": (
        ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\tA kid\tA boy\t4.5\tNEUTRAL\n"],
        Example("A kid", "A boy", "4.5"),
    ),
    "SNLI, MultiNLI": (
        ['{"gold_label": "neutral", "sentence1": "A dog.", "sentence2": "A cat.", "annotator_labels": ["neutral"]}\n'],
        Example("A dog.", "A cat.", "neutral"),
    ),
    "two texts in one field": (["text,label\nA dog.<sep>A cat.,no\n"], Example("A dog.", "A cat.", "no")),
    "MR, CR, MPQA, text_gcn: label and text": (
        ["1\ta film , so\n0\tdull\n0\tbad\n"],
        Example("a film , so", label="1"),
    ),
    "a header of any names": (
        ["polarity\ttweet\n" + "0\tbad, I say\n1\tgood, I say\n" * 6],
        Example("bad, I say", label="0"),
    ),
    "no header, though the first line looks like one": (
        ["query\thello\n" + "order\ta pizza, now\ncancel\tthe pizza, please\n" * 20],
        Example("hello", label="query"),
    ),
    "AG News, DBpedia, Yelp: no header, several texts": (
        ['"3","Wall St. Bears","Short-sellers, again"\n"4","","Oil"\n'],
        Example("Wall St. Bears Short-sellers, again", label="3"),
    ),
    "AG News with a header": (
        ['Class Index,Title,Description\n3,Bears,"Short, again"\n'],
        Example("Bears Short, again", label="3"),
    ),
    "Sentiment140": (
        ['"0","1467","Mon Apr 06","NO_QUERY","anna","so sad, really"\n"4","1468","Mon","NO_QUERY","bob","yes"\n'],
        Example("so sad, really", label="0"),
    ),
    "SMS Spam Collection of Kaggle": (['v1,v2,,,\nham,"Go, now",,,\nspam,Win,,,\n'], Example("Go, now", label="ham")),
    "TREC": (
        ["DESC:manner How did it go ?\nENTY:animal What dog is it ?\n"],
        Example("How did it go ?", label="DESC:manner"),
    ),
    "Jigsaw toxic comments: a column for each label": (
        ['id,comment_text,toxic,obscene,insult\n1,"You, there",1,0,1\n2,Hello,0,0,0\n'],
        Example("You, there", label=("toxic", "insult")),
    ),
    "SemEval 2018 emotions": (["ID\tTweet\tanger\tjoy\n1\tso nice\t0\t1\n"], Example("so nice", label=("joy",))),
    "doccano, several labels": (
        ['{"id": 1, "text": "so nice", "label": ["joy", "love"]}\n{"id": 2, "text": "a chair", "label": []}\n'],
        Example("so nice", label=("joy", "love")),
    ),
    "nested fields": (['{"text": "a film", "labels": {"real-label": "pos"}}\n'], Example("a film", label="pos")),
    "lists of words": (['{"words": ["do", "n\'t"], "label": "neg"}\n'], Example(("do", "n't"), label="neg")),
    "Excel": (['sep=;\ntext;label\n"good; very";1\n'], Example("good; very", label="1")),
    "fastText": (
        ["__label__pos __label__film a fine film\n__label__neg dull\n"],
        Example("a fine film", label=("pos", "film")),
    ),
    "names and their classes: text first": (["Ada\tF\nBob\tM\nEve\tF\nDan\tM\n"], Example("Ada", label="F")),
    "Moses, Multi30k: two files": (["A dog.\nA cat.\n", "Ein Hund.\nEine Katze.\n"], ("A dog.", "Ein Hund.")),
    "sources and targets between tabs, with or without a header": (
        ["source\ttarget\n" + "A dog.\tEin Hund.\nA black cat.\tEine Katze.\n" * 3],
        ("A dog.", "Ein Hund."),
    ),
    "translations of Hugging Face": (
        ['{"translation": {"en": "A dog.", "de": "Ein Hund."}}\n'],
        ("A dog.", "Ein Hund."),
    ),
    "`source ||| target` of fast_align": (
        ["A dog. ||| Ein Hund.\nA cat. ||| Eine Katze.\n"],
        ("A dog.", "Ein Hund."),
    ),
    "IMDB (`aclImdb/train`), 20 Newsgroups, BBC: a folder for each class": (
        [{"pos/1.txt": "A fine film.\n", "neg/1.txt": "Dull.\n"}],
        Example("Dull.", label="neg"),
    ),
    "JSON array": (
        ['[\n {"text": "so nice", "label": "pos"},\n {"text": "dull", "label": "neg"}\n]'],
        Example("so nice", label="pos"),
    ),
    "Parquet of Hugging Face": (
        [pa.table({"text": ["so nice", "dull"], "label": ["pos", "neg"]})],
        Example("so nice", label="pos"),
    ),
    "CoNLL-2003, WNUT 17": (
        ["-DOCSTART- -X- O O\n\nAda NNP I-NP B-PER\nwrote VBD I-VP O\n\n"],
        Sentence(["Ada", "wrote"], tags=["B-PER", "O"]),
    ),
    "Penn Treebank, Brown": (["1\\/2/CD hour/NN\n\ndogs/NNS bark/VBP\n"], Sentence(["1/2", "hour"], tags=["CD", "NN"])),
    "Universal Dependencies": (
        [UD],
        Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"], tags=["NNS", "VBP"]),
    ),
    "tokens and tags of Hugging Face": (
        ['{"id": "0", "words": ["Ada", "wrote"], "pos_tags": ["N", "V"], "ner_tags": ["B-PER", "O"]}\n'],
        Sentence(["Ada", "wrote"], tags=["B-PER", "O"]),
    ),
}


def test_every_row_has_an_input():
    assert COMMANDS.keys() == ROWS.keys()


def parse(command):
    """Task, paths, and the values of the flags."""
    _, _, task, *words, _, _ = shlex.split(command)  # without --out model
    flags = {flag.flag: flag for flag in training_flags(TASKS[task])}
    paths, given = [], {}
    while words:
        word = words.pop(0)
        flag = flags.get(word) or flags.get(f"--{word.removeprefix('--no-')}")
        if flag is None:
            paths.append(word)
        elif flag.kind is bool:
            given[flag.name] = word == flag.flag
        else:
            given[flag.name] = flag.parse(words.pop(0))
    return task, paths, given


def write(path, content):
    """Write a text, a table, or a folder of texts."""
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    elif isinstance(content, dict):
        for file, text in content.items():
            (path / file).parent.mkdir(parents=True)
            write(path / file, text)
    else:
        path.write_text(content, encoding="utf-8")


@pytest.mark.parametrize("name", ROWS)
def test_the_command_reads_the_first_item(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contents, expected = ROWS[name]
    task, paths, given = parse(COMMANDS[name])
    for path, content in zip(paths, contents, strict=True):
        write(Path(path), content)
    plan = TrainingPlan.of(TASKS[task], given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Hint)
        items, targets = plan.estimator().read(paths, format=plan.corpus.format, **plan.corpus.reader_options())
    if isinstance(expected, Example) and isinstance(expected.text, tuple):
        expected = Sentence(expected.text, label=expected.label)
    assert (items[0] if targets is None else (items[0], targets[0])) == expected
