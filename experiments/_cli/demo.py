"""``graphattn demo``: a generated corpus, its graphs, two models, a prediction and pictures, in a minute."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphattn.exceptions import MissingPackageError
from graphattn.experiments._cli.corpus_options import CLASSIFY, TAG

if TYPE_CHECKING:
    from graphattn.experiments.demo._steps import Demo

EXAMPLES = 'graphattn demo\n\ngraphattn demo --text "the film was hardly a bad choice ." --out my-demo'


def demo(
    text: Annotated[str | None, typer.Option(help="A sentence to predict.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for everything the demo writes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Makes another corpus and other models.")] = 0,
) -> None:
    """See everything once: corpus, graphs, a classifier, a tagger, a prediction, pictures."""
    from graphattn.experiments.demo._steps import SENTENCE, Demo

    started = time.monotonic()
    run = Demo(out, seed=seed)
    run_steps(run, text if text is not None else SENTENCE)
    print(f"\n{time.monotonic() - started:.0f} seconds. Try next:")
    for command in _next_commands(run):
        print(f"  {command}")


def run_steps(run: Demo, text: str) -> None:
    """Run the steps of a demo, which predicts ``text``, and print their results."""
    _print_title("a corpus, written by a small grammar")
    example = run.write_corpus()
    print(f"{run.size.train} reviews to train on, in {run.out / 'corpus'}. One of them:")
    print(f"  {' '.join(example.tokens)}  ({example.label})")

    _print_title("graphs: one node for each token, one kind of edge for each relation")
    counts = run.build_store()
    print(f"{counts.sentences} sentences in the store {run.out / 'store'}, from which batches of graphs are made")
    print("  " + ", ".join(f"{relation}: {edges:,}" for relation, edges in counts.edges.items()) + " edges")
    try:
        sentence, picture = run.draw_graph()
    except MissingPackageError as error:
        print(f"  The picture of a graph is left out: {error}")
    else:
        print(f"  {picture} shows the graph of: {' '.join(sentence.words)}")

    _print_title("a classifier whose heads look through windows of 1, 3, 5 and 9 tokens")
    _print_accuracies(run.train(CLASSIFY))
    print("  A bag of words cannot tell what is negated, nor which of two clauses counts; edges can.")

    _print_title("a tagger, on the same edges")
    _print_accuracies(run.train(TAG))

    _print_title("a prediction")
    print(f"  {text}")
    prediction = run.predict(text)
    print(f"  {prediction['label']} ({prediction['probability']:.0%})")
    print("  " + " ".join(f"{word}/{tag}" for word, tag in prediction["tags"]))
    attention, table = run.save_attention(text)
    print(f"  {table} shows which tokens it looked at")
    with suppress(MissingPackageError):  # said above
        if (drawn := run.draw_attention(attention)) is not None:
            print(f"  {drawn} shows the first layer")


def _print_accuracies(accuracies: dict[str, float]) -> None:
    for model, accuracy in accuracies.items():
        print(f"  {model}: {accuracy:.1f} % of the test set right")


def _print_title(title: str) -> None:
    print(f"\n{title[0].upper()}{title[1:]}.", flush=True)


def _next_commands(run: Demo) -> list[str]:
    """Commands that work on the files of this demo."""
    classifier, train = run.model(CLASSIFY), run.corpus_file(CLASSIFY, "train")
    settings, test = run.settings_file(CLASSIFY), run.corpus_file(CLASSIFY, "test")
    sentence = shlex.quote("the guests felt that the cake was never dull .")
    return [
        f"echo {sentence} | graphattn predict {_quote(classifier)} --probabilities",
        f"graphattn evaluate {_quote(classifier)} {_quote(test)}",
        f"graphattn train classify {_quote(train)} --config {_quote(settings)} "
        f"--encoder transformer --ffn 256 --out {_quote(run.out / 'transformer')}",
        f"graphattn build {_quote(train)} --relations window:5,all --out {_quote(run.out / 'more')}",
    ]


def _quote(path: Path) -> str:
    return shlex.quote(str(path))
