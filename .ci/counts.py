"""Count what makes this code base large or hard to read: ``python .ci/counts.py [ROOT]``.

Prints one line per count. ``--trace`` also counts the functions that ``graphattn train classify`` and ``predict``
execute, and the classes that they define when they import modules; it needs the package's dependencies.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDERS = ("graphattn", "builders", "models", "experiments")
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.Assert, ast.comprehension)
# First words of names that are participles, pronouns or nouns where a verb belongs.
NOT_VERBS = set(
    "afresh apart attempts chosen completed given held holds idle joined kept known lacks listed lots made mapped "
    "meant near one own passes pointers portions reading refused runs seen settled shifted shown "
    "side spelled stands survey taken tenth together told twice usual visible wanted whole without written".split()
)
PARTICIPLE = re.compile(
    r"^(?!embed|feed|need|read|seed|shed|speed|exceed|proceed|succeed|thread|spread|add|pad|load)\w+ed$"
)
COMPARISON = re.compile(r"(?<!for )\btask_? (?:==|!=|in|not in) ")
CARRIERS = (
    "Batch BatchShard Chunk Columns Corpus CorpusFile EncodedInputs Example Examples Layout LazyCorpus LazyTexts "
    "MappedLayout MarkedWords NumberedText ParallelCorpus Sentence SplitText Store StoredTexts TableRow TextBatch "
    "Texts TokenTypes"
).split()
"""Classes and aliases that carry a text between a file and a model."""
WIDE_NAMES = ("columns", "model", "options", "rows", "texts", "weights")
TRACE = """
import os, sys, threading
title, first, last, seen = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1), set()
started = not first
def report():
    for kind, is_function in (("functions executed", True), ("classes defined", False)):
        files = [file for file, _, _, flag in seen if flag is is_function]
        print(f"{kind} by {title}: {len(files)} in {len(set(files))} modules", file=sys.__stdout__, flush=True)
def hook(frame, event, argument):
    global started
    code = frame.f_code
    if event == "call" and not started:
        started = code.co_qualname == first
    elif event == "call" and "/graphattn/" in code.co_filename and not code.co_name.startswith("<"):
        # without this flag it is the body of a class
        seen.add((code.co_filename, code.co_qualname, code.co_firstlineno, bool(code.co_flags & 1)))
        if last in (code.co_name, code.co_qualname):
            report()
            os._exit(0)
from MODULE import main
sys.stdout = open("output.txt", "w")
sys.setprofile(hook); threading.setprofile(hook)
try: main()
except SystemExit: pass
sys.setprofile(None)
report()
"""


def tracked(root: Path, *folders: str) -> list[Path]:
    """The Python files that git knows."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=root, capture_output=True, text=True, check=True).stdout
    return [root / name for name in listed.split("\n") if name.endswith(".py") and (root / name).is_file()]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def complexity(function: ast.AST) -> int:
    """Decision points plus one, nested functions included."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.Match):
            count += len(node.cases)
    return count


def is_no_verb(name: str) -> bool:
    """Whether the first word of a function's name is known to be no verb."""
    first = name.strip("_").split("_")[0]
    return first in NOT_VERBS or bool(PARTICIPLE.match(first))


def count_types(functions: list[ast.FunctionDef | ast.AsyncFunctionDef], name: str) -> int:
    """Number of types that parameters of this name have."""
    arguments = [
        each for node in functions for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    ]
    return len({ast.unparse(each.annotation) for each in arguments if each.arg == name and each.annotation})


def main() -> None:
    """Print the counts."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--trace"]
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    files, tests = tracked(root, *FOLDERS), tracked(root, "tests")
    texts = [path.read_text(encoding="utf-8") for path in files]
    functions = [
        (node, parent)
        for text in texts
        for parent in ast.walk(ast.parse(text))
        for node in ast.iter_child_nodes(parent)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    defined = [node for node, _ in functions]
    plain = [node for node in defined if "property" not in " ".join(map(ast.unparse, node.decorator_list))]
    lines = sum(text.count("\n") for text in texts)
    counts = {
        "modules": len(files),
        "lines outside tests": lines,
        "lines in tests": sum(path.read_text(encoding="utf-8").count("\n") for path in tests),
        "modules below 70 lines": sum(text.count("\n") < 70 for text in texts),
        "functions": len(defined),
        "functions over 60 lines, docstring excluded": sum(body_lines(node) > 60 for node in defined),
        "functions with complexity over 12": sum(complexity(node) > 12 for node in defined),
        "functions with more than 9 positional parameters": sum(
            len(node.args.posonlyargs + node.args.args) > 9 for node in defined
        ),
        "function names that are not verbs": sum(is_no_verb(node.name) for node in plain),
        "comparisons of task": sum(len(COMPARISON.findall(text)) for text in texts),
        "raise statements": sum(isinstance(node, ast.Raise) for text in texts for node in ast.walk(ast.parse(text))),
        "lines with Any": sum(bool(re.search(r"\bAny\b", line)) for text in texts for line in text.split("\n")),
        "carriers of a text": sum(
            any(re.search(rf"^(class )?{name}\b(?:.*TypeAlias|[:(]| = )", text, re.MULTILINE) for text in texts)
            for name in CARRIERS
        ),
        "names of parameters with more than ten types": sum(count_types(defined, name) > 10 for name in WIDE_NAMES),
    }
    for name, count in counts.items():
        print(f"{name}: {count:,}")
    if "--trace" in sys.argv:
        trace(root)


def trace(root: Path) -> None:
    """Train on 40 lines and predict a sentence; print how many functions ran, and how many before the first batch."""
    module = "graphattn.experiments._cli.main"
    script = TRACE.replace("MODULE", module)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "train.tsv"
        corpus.write_text(
            "".join(f"{'pos' if n % 2 else 'neg'}\ta {'good' if n % 2 else 'bad'} film\n" for n in range(40))
        )
        train = ["train", "classify", str(corpus), "--epochs", "2", "--no-logs", "--quiet", "--out"]
        for title, first, last, *words in (
            ("train classify before the first batch", "", "training_step", *train, f"{folder}/none"),
            ("train classify", "", "", *train, f"{folder}/model"),
            ("predict of a sentence", "", "", "predict", f"{folder}/model"),
            ("the way into the encoder", "Estimator.predict", "MSTransEncoder.forward", "predict", f"{folder}/model"),
        ):
            command = [sys.executable, "-c", script, title, first, last, *words]
            environment = {**os.environ, "PYTHONPATH": str(root)}
            subprocess.run(command, check=True, cwd=folder, env=environment, input="a good film\n", text=True)


if __name__ == "__main__":
    main()
