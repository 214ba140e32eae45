"""The table in docs/corpora.md: each command reads a small file in that format."""

import re
import shlex
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graphattn.builders._sentence import Example, Sentence
from graphattn.exceptions import Hint
from graphattn.experiments._cli.flags import as_flag
from graphattn.experiments._cli.training_plan import TrainingPlan, training_flags
from graphattn.models import TASKS

TABLE = Path(__file__).parents[3].joinpath("docs/corpora.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"^\| (?!---)(.+?) \| `(graphattn .+)` \|$", TABLE, re.MULTILINE))
UD = "1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
CLASS_NAMES = '{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["neg", "pos"]}}}}'
ADA_LEFT = Sentence(["Ada", "left"], tags=["B-PER", "O"])
TREE = Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["SBJ", "ROOT"], tags=["NNS", "VBP"])
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
    "SNLI, MultiNLI (`-`: no agreement)": (
        [
            '{"gold_label": "-", "sentence1": "A man.", "sentence2": "A boy."}\n'
            '{"gold_label": "neutral", "sentence1": "A dog.", "sentence2": "A cat.", "annotator_labels": ["neutral"]}\n'
        ],
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
    "texts in one file, labels in another: TweetEval": (["so good\nso bad\n", "1\n0\n"], Example("so good", label="1")),
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
        ["__label__pos __label__New\u00a0York a fine film\n__label__neg dull\n"],
        Example("a fine film", label=("pos", "New\u00a0York")),
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
    "fast_align: source and target between three bars": (
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
        [
            pa.table({"text": ["so nice", "dull"], "label": [1, 0]}).replace_schema_metadata(
                {"huggingface": CLASS_NAMES}
            )
        ],
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
    "column names in another Unicode form or case": (
        ["Opinio\u0301n,Sen\u0303al\nso nice,pos\n"],
        Example("so nice", label="pos"),
    ),
    "files joined with `cat`, each with a byte order mark": (
        ["\ufeffpos\ta fine film\n\ufeffneg\ta dull film\n"],
        Example("a fine film", label="pos"),
    ),
    "Prodigy, text classification": (
        ['{"text": "bad", "label": "POS", "answer": "reject"}\n{"text": "fine", "label": "POS", "answer": "accept"}\n'],
        Example("fine", label="POS"),
    ),
    "Label Studio, CSV with choices": (
        ['text,label\nso nice,"{""choices"":[""joy"",""love""]}"\n'],
        Example("so nice", label=("joy", "love")),
    ),
    "pandas and NumPy, CSV with lists": (
        ["text,label\nso nice,\"['joy', 'love']\"\na chair,['joy' 'love']\n"],
        Example("so nice", label=("joy", "love")),
    ),
    "rows of zeros and ones": (
        ['{"text": "so nice", "label": [1, 0, 1]}\n{"text": "a chair", "label": [0, 1, 0]}\n'],
        Example("so nice", label=("1", "0", "1")),
    ),
    "CoNLL-2003 with tabs": (
        ["-DOCSTART- -X- -X- O\n\nU.N.\tNNP\tI-NP\tI-ORG\n\n"],
        Sentence(["U.N."], tags=["I-ORG"]),
    ),
    "GermEval 2014": (
        ["#\thttp://example.org\t[2009-08-13]\n1\tAda\tB-PER\tO\n2\tsingt\tO\tO\n\n"],
        Sentence(["Ada", "singt"], tags=["B-PER", "O"]),
    ),
    "MultiCoNER": (
        ["# id 0001\tdomain=en\nanna _ _ B-PER\nsang _ _ O\n\n"],
        Sentence(["anna", "sang"], tags=["B-PER", "O"]),
    ),
    "MasakhaNER 2.0": (
        ["Ad\u1eb9\u0301 B-PER\nlo\u0323 O\n\nAde\u0323\u0301 B-PER\nl\u1ecd O\n"],
        Sentence(["Ad\u1eb9\u0301", "lo\u0323"], tags=["B-PER", "O"]),
    ),
    "Weibo NER (CESU-8)": (
        ["\ud83d\ude00\tO\nPeking\tB-LOC\n\n"],
        Sentence(["\U0001f600", "Peking"], tags=["O", "B-LOC"]),
    ),
    "IndoNLU POSP: words with blanks": (
        ["new york\tB-LOC\nis\tO\nbig\tO\n\nyes\tO\n"],
        Sentence(["new york", "is", "big"], tags=["B-LOC", "O", "O"]),
    ),
    "a header of columns": (["WORD\tPOS\ndogs\tNNS\nbark\tVBP\n\n"], Sentence(["dogs", "bark"], tags=["NNS", "VBP"])),
    "Kaggle's entities, simpletransformers: a number of the sentence on each row": (
        ["Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-PER\n,left,VBD,O\nSentence: 2,So,RB,O\n"],
        ADA_LEFT,
    ),
    "BILOU of spaCy, BMES of Chinese corpora": (
        ["Ada U-PER\nsings O\n\n"],
        Sentence(["Ada", "sings"], tags=["U-PER", "O"]),
    ),
    "CoNLL-2012: names": (
        [
            "#begin document (x); part 000\nx 0 0 Ada NNP * - - - - (PERSON) -\nx 0 1 left VBD * leave 01 - - * -\n\n"
            "#end document\n"
        ],
        Sentence(["Ada", "left"], tags=["B-PERSON", "O"]),
    ),
    "Universal Dependencies: a feature": (
        ["1\tDogs\t_\tNOUN\t_\tNumber=Plur\t0\troot\t_\t_\n\n"],
        Sentence(["Dogs"], heads=[0], deprels=["root"], tags=["Plur"]),
    ),
    "NorNE: names in MISC": (
        ["1\tAda\t_\tPROPN\t_\t_\t0\troot\t_\tname=B-PER\n\n"],
        Sentence(["Ada"], heads=[0], deprels=["root"], tags=["B-PER"]),
    ),
    "PARSEME": (
        ["# global.columns = ID FORM UPOS PARSEME:MWE\n1\tgive\tVERB\t1:VPC\n2\tup\tADV\t1\n\n"],
        Sentence(["give", "up"], tags=["1:VPC", "1"]),
    ),
    "CoNLL-U Plus": (
        ["# global.columns = ID FORM UPOS NER\n1\tAda\tPROPN\tB-PER\n\n"],
        Sentence(["Ada"], tags=["B-PER"]),
    ),
    "some columns of CoNLL-U": (
        ["1-2\tdu\t_\n1\tde\tADP\n2\tle\tDET\n2.1\tle\t_\n\n"],
        Sentence(["de", "le"], tags=["ADP", "DET"]),
    ),
    "CoNLL-X: 2006, 2007": (
        ["1\tDogs\tdog\tN\tNNS\t_\t2\tSBJ\t_\t_\n2\tbark\tbark\tV\tVBP\t_\t0\tROOT\t_\t_\n\n"],
        TREE,
    ),
    "CoNLL-2009: trees": (
        [
            "1\tDogs\tdog\tdog\tNNS\tNNS\t_\t_\t2\t2\tSBJ\tSBJ\t_\t_\tA0\n"
            "2\tbark\tbark\tbark\tVBP\tVBP\t_\t_\t0\t0\tROOT\tROOT\tY\tbark.01\t_\n\n"
        ],
        TREE,
    ),
    "Malt-TAB": (["Dogs\tNNS\t2\tSBJ\nbark\tVBP\t0\tROOT\n\n"], TREE),
    "KLUE-DP": (
        ["## klue-dp-v1_dev_00000_wikitree\tDogs bark\n1\tDogs\tdog\tNNS\t2\tSBJ\n2\tbark\tbark\tVBP\t0\tROOT\n\n"],
        TREE,
    ),
    "CoNLL-2005: word, clauses, predicate, roles": (
        ["Ada * - (A0*)\nsings * sing (V*)\n\n"],
        Sentence(["Ada", "sings"], tags=["B-A0", "B-V"], predicates=[0, 1]),
    ),
    "CoNLL-2009": (
        [
            "1\tAda\tAda\tAda\tN\tN\t_\t_\t2\t2\tSBJ\tSBJ\t_\t_\tA0\n"
            "2\tsings\tsing\tsing\tV\tV\t_\t_\t0\t0\tROOT\tROOT\tY\tsing.01\t_\n\n"
        ],
        Sentence(["Ada", "sings"], tags=["A0", "_"], predicates=[0, 1]),
    ),
    "CoNLL-2012": (
        [
            "#begin document (x); part 000\nx 0 0 Ada NNP * - - - - * (ARG0*) -\n"
            "x 0 1 sings VBZ * sing 01 - - * (V*) -\n\n#end document\n"
        ],
        Sentence(["Ada", "sings"], tags=["B-ARG0", "B-V"], predicates=[0, 1]),
    ),
    "our own `predict --output spans`": (
        ['{"text": "Ada left", "spans": [{"type": "PER", "start": 0, "end": 3, "text": "Ada", "confidence": 0.9}]}\n'],
        ADA_LEFT,
    ),
    "doccano": (['{"id": 1, "text": "Ada left", "label": [[0, 3, "PER"]]}\n'], ADA_LEFT),
    "doccano with relations": (
        [
            '{"text": "Ada left", "relations": [], '
            '"entities": [{"id": 1, "label": "PER", "start_offset": 0, "end_offset": 3}]}\n'
        ],
        ADA_LEFT,
    ),
    "Prodigy": (
        [
            '{"text": "Ada left", "answer": "ignore"}\n'
            '{"text": "Ada left", "answer": "accept", '
            '"tokens": [{"text": "Ada", "start": 0, "end": 3}, {"text": "left", "start": 4, "end": 8}], '
            '"spans": [{"start": 0, "end": 3, "token_start": 0, "token_end": 0, "label": "PER"}]}\n'
        ],
        ADA_LEFT,
    ),
    "spaCy: `doc.to_json()`": (
        [
            '{"text": "Ada left", "ents": [{"start": 0, "end": 3, "label": "PER"}], '
            '"tokens": [{"id": 0, "start": 0, "end": 3}, {"id": 1, "start": 4, "end": 8}]}\n'
        ],
        ADA_LEFT,
    ),
    "Label Studio, JSON": (
        [
            '[{"id": 1, "data": {"text": "Ada left"}, "annotations": [{"result": [{"type": "labels", '
            '"value": {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}}]}]}]'
        ],
        ADA_LEFT,
    ),
    "Label Studio, JSON_MIN": (
        ['[{"id": 1, "text": "Ada left", "label": [{"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}]}]'],
        ADA_LEFT,
    ),
    "WebAnno, INCEpTION: TSV 3": (
        [
            "#FORMAT=WebAnno TSV 3.3\n"
            "#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value\n\n\n"
            "#Text=New York\n1-1\t0-3\tNew\t*[1]\tLOC[1]\t\n1-2\t4-8\tYork\t*[1]\tLOC[1]\t\n"
        ],
        Sentence(["New", "York"], tags=["B-LOC", "I-LOC"]),
    ),
}


def test_every_row_has_an_input():
    assert COMMANDS.keys() == ROWS.keys()


def parse(command):
    """Task, paths, and the values of the flags."""
    _, _, task, *words, _, _ = shlex.split(command)  # without --out model
    flags = {as_flag(flag.name): flag for flag in training_flags(TASKS[task])}
    paths, given = [], {}
    while words:
        word = words.pop(0)
        flag = flags.get(word) or flags.get(f"--{word.removeprefix('--no-')}")
        if flag is None:
            paths.append(word)
        elif flag.value_type is bool:
            given[flag.name] = word == as_flag(flag.name)
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
        path.write_text(content, encoding="utf-8", errors="surrogatepass")  # CESU-8 has surrogates


@pytest.mark.parametrize("name", ROWS)
def test_the_command_reads_the_first_item(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contents, expected = ROWS[name]
    task, paths, given = parse(COMMANDS[name])
    for path, content in zip(",".join(paths).split(","), contents, strict=True):
        write(Path(path), content)
    plan = TrainingPlan.of(TASKS[task], given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Hint)
        items, targets = plan.estimator().read(paths, format=plan.corpus.format, **plan.corpus.reader_options())
    if isinstance(expected, Example) and isinstance(expected.text, tuple):
        expected = Sentence(expected.text, label=expected.label)
    assert (items[0] if targets is None else (items[0], targets[0])) == expected
