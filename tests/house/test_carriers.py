"""docs/architecture.md lists the classes that carry a text from a file to a model, and no other class does."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
MOST = 12
# Classes that hold a carrier for their own work: blocks of a build, batches of a store's data sets, a run of training
# and its data set, a result, and a contender of a benchmark.
HOLDERS = {"ItemBlock", "DecodedRows", "StoreBatch", "Fit", "ScoredBatch", "Shares", "AttentionWeights", "GraphInput"}


@pytest.fixture(scope="module")
def carriers():
    """Name -> file of each carrier in the table."""
    if not PAGE.is_file():
        pytest.skip("there is no clone")
    table = re.search(r"<!-- carriers -->\n(.*?)<!-- end of carriers -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return dict(re.findall(r"^\| (\w+) \|.*\| `(.+)` \|$", table[1], re.MULTILINE))


def find_holders(tree, names):
    """Classes with a field or a base whose type is one of the names."""
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            types = [*node.bases, *(item.annotation for item in node.body if isinstance(item, ast.AnnAssign))]
            shown = [text for text in map(ast.unparse, types) if not re.match("ClassVar|Callable", text)]
            if any(map(pattern.search, shown)):
                yield node.name


def test_the_table_names_classes_of_the_code(carriers):
    assert 0 < len(carriers) <= MOST
    for name, file in carriers.items():
        assert re.search(rf"^class {name}\b", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), name


def test_no_other_class_carries_texts(carriers, modules):
    found = {
        name
        for module in modules.values()
        for name in find_holders(ast.parse(module.path.read_text(encoding="utf-8")), [*carriers, "Source"])
    }
    assert found - {*carriers} == HOLDERS


def test_a_class_with_texts_is_found():
    tree = ast.parse("class Pair:\n    texts: Texts\nclass Other:\n    size: int\nclass Part(Corpus): ...\n")
    assert [*find_holders(tree, ["Texts", "Corpus"])] == ["Pair", "Part"]
