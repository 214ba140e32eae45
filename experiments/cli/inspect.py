"""``graphattn inspect``: the attention weights behind a prediction, as table, file, picture or page; or of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.cli.corpus_options import CorpusOptions, is_store, path_test
from graphattn.experiments.cli.flags import Values, as_flag, flags_of, with_flags
from graphattn.experiments.cli.output_files import check_place, files_of_model

if TYPE_CHECKING:
    import pandas as pd

    from graphattn.models import Estimator
    from graphattn.models.inspection import Attention

EXAMPLES = (
    'graphattn inspect model "a lovely film"\n\n'
    'graphattn inspect model "a lovely film" --layer 1 --by head --picture arcs.png\n\n'
    "graphattn inspect model reviews.txt --out weights.parquet\n\n"
    "graphattn inspect model reviews.txt --html page.html --other model2\n\n"
    "graphattn inspect --serve model model2\n\n"
    "graphattn inspect model reviews.txt --summary --picture distances.png --out tables"
)
_UNUSED = {"label_column", "label_separator", "tag_column", "tags"}
_FILES = {".txt", ".tsv", ".csv", ".jsonl", ".ndjson", ".conll", ".conllu", ".gz", ".xz", ".bz2"}
_KINDS = ("arcs", "matrices")
_ALONE = "--serve shows a page and does nothing else"
_SUMS = "--summary sums over all layers, heads and relations; --layer chooses that of its --picture"


@with_flags(flags_of(CorpusOptions(), "Input", without=_UNUSED))
def inspect(
    model: Annotated[Path, typer.Argument(help="Model directory that train wrote.")],
    given: Values,
    text: Annotated[
        str | None, typer.Argument(help="A text (a pair with a tab between), or a file; - for standard input.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Only this layer, counted from 0.")] = None,
    head: Annotated[int | None, typer.Option(help="Only this head of each layer, counted from 0.")] = None,
    relation: Annotated[str | None, typer.Option(help="Only heads on this relation, such as window:3.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many of the strongest edges to print.")] = 10,
    by: Annotated[str | None, typer.Option(help="Print so many for each layer, head, relation; with commas.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for all weights: .parquet, .csv, .json or .graphml.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Picture to draw: .png, .svg or .pdf.")] = None,
    kind: Annotated[str, typer.Option(help="What to draw: arcs or matrices.")] = "arcs",
    summary: Annotated[bool, typer.Option("--summary", help="Sums over all texts instead of single ones.")] = False,
    other: Annotated[
        Path | None, typer.Option(help="With --summary or --html: a second model to compare with.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Page to write: one HTML file that any browser opens.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page, to type texts into; a second model may stand for TEXT.")
    ] = False,
    host: Annotated[str | None, typer.Option(help="With --serve: where to listen (default: 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="With --serve: 0 takes a free one (default: 8000).")
    ] = None,
) -> None:
    """Show which edges of a text's graph got which attention weight.

    Prints the prediction and the strongest edges of each text; an edge that is the only one of its token is left out,
    since its weight is one whatever the model thinks. With --summary, --out is a .json file or a folder.
    """
    from graphattn.models.saving import load, read_task

    chosen = {"layer": layer, "head": head, "relation": relation}
    flags = {f"--{name}": value is not None for name, value in {**chosen, "by": by}.items()}
    if serve:
        files = {"--summary": summary, "--out": out, "--picture": picture, "--html": html, "--other": other}
        _refuse({**files, **flags, **dict.fromkeys(map(as_flag, given), True)}, _ALONE)
        models = [model] if text is None else [model, Path(text)]
        _serve(models, "127.0.0.1" if host is None else host, 8000 if port is None else port)
        return
    _refuse({"--host": host is not None, "--port": port is not None}, "only --serve listens")
    if summary:
        flags["--layer"] = layer is not None and picture is None
        _refuse(flags, _SUMS)
    if text is None:
        raise typer.BadParameter("give a text or a file, or --serve", param_hint="TEXT")
    if summary and html is not None:
        raise ConfigError("--html shows single texts, --summary sums over all; leave one of them out")
    _check_flags(kind, compares=summary or html is not None, other=other)
    read = [file for one in (model, other) if one is not None for file in files_of_model(one)]
    _check_files(out, picture, html, text, *read, summary=summary)
    texts: Iterable[Any] = _texts(text, read_task(model), CorpusOptions(**given))
    if not summary:
        texts = _one_if_needed(texts, out, picture)
    estimator = load(model)
    second = None if other is None else load(other)
    if summary:
        if picture is not None:
            texts = _with_layer(estimator, texts, layer)
        _summarise(estimator, texts, second, out, picture, layer or 0)
        return
    texts = texts if second is None else list(texts)
    groups = [] if by is None else [name.strip() for name in by.split(",")]
    shown = _shown(_attentions(estimator, texts, chosen), top, groups)
    if out is None and picture is None and html is None:
        for _ in shown:
            pass
        return
    kept = _kept(shown)
    _write(kept, out, picture, kind)
    if html is not None:
        columns = [(model, estimator, kept)]
        if other is not None and second is not None:
            columns.append((other, second, list(_attentions(second, texts, chosen))))
        _write_page(columns, html)
        print(html)


def _check_flags(kind: str, *, compares: bool, other: Path | None) -> None:
    """Refuse what cannot be done."""
    if kind not in _KINDS:
        raise ConfigError(f"--kind is {kind!r}; choose one of: {', '.join(_KINDS)}")
    if other is not None and not compares:
        raise ConfigError("--other is compared in sums over texts or on a page; give --summary or --html too")


def _check_files(out: Path | None, picture: Path | None, html: Path | None, *read: str | Path, summary: bool) -> None:
    """Refuse files that cannot be written, and those that are read, before texts are looked at for them."""
    from graphattn.models.inspection.files import SUFFIXES, check_suffix

    to_folder = summary and out is not None and not out.suffix
    if out is not None and not to_folder:
        check_suffix(out, [".json"] if summary else SUFFIXES)
    if picture is not None:
        from graphattn.experiments.drawing.canvas import check_format

        check_format(picture)
    for path in (None if to_folder else out, picture, html):
        if path is not None:
            check_place(path, *read)


def _one_if_needed(texts: Iterable[Any], out: Path | None, picture: Path | None) -> Iterable[Any]:
    """The inputs; several are refused where what is asked for holds one."""
    if picture is not None:
        refusal = "a picture shows one text, and there are more; give one, or --summary"
    elif out is not None and out.suffix.lower() == ".graphml":
        refusal = "a .graphml file holds one text, and there are more; give one, or save to .parquet, .csv or .json"
    else:
        return texts
    found = list(islice(texts, 2))
    if len(found) > 1:
        raise ConfigError(refusal)
    return found


def _refuse(flags: dict[str, Any], reason: str) -> None:
    for flag, value in flags.items():
        if value:
            raise ConfigError(f"{reason}; leave {flag} out")


def _texts(given: str, task: type[Estimator], options: CorpusOptions) -> Iterator[Any]:
    """The inputs: those of a file or of standard input, or the text itself."""
    from graphattn.experiments.cli.text_stream import read_texts

    path = Path(given)
    named = bool(given)  # as a path nothing would be this folder
    if given == "-" or (named and path_test(lambda: path.exists() and (not path.is_dir() or is_store(path)))):
        return read_texts(given, task.corpus_kind, options)
    if named and path_test(path.is_dir):
        hint = "Name a file in it, or give the text by standard input."
        raise DataError("this is a folder", path=given, hint=hint)
    if path.suffix.lower() in _FILES and not any(sign.isspace() for sign in given):
        raise DataError("there is no such file", path=given, hint="Check the path.")
    if task.texts_per_input == 1:
        return iter([given.split() if options.format == "words" else given])
    texts = given.split("\t")
    if len(texts) != 2:
        raise DataError(
            f"{given!r} is no pair of texts", hint="Put a tab between the two, $'first\\tsecond' in a shell."
        )
    return iter([tuple(texts)])


def _attentions(estimator: Estimator, texts: Iterable[Any], chosen: dict[str, Any]) -> Iterator[Attention]:
    """The chosen weights of each text; what cannot be looked at is named by its number."""
    for number, x in enumerate(texts, start=1):
        try:
            found = estimator.attention(x)
        except DataError as error:
            raise DataError(f"text {number}: {error.message}", hint=error.hint, options=error.options) from error
        yield found.only(**chosen)


def _with_layer(estimator: Estimator, texts: Iterable[Any], layer: int | None) -> Iterator[Any]:
    """The inputs, after a look at the first: a layer that does not exist is refused before all of them are summed."""
    rest = iter(texts)
    first = list(islice(rest, 1))
    for _ in _attentions(estimator, first, {"layer": layer}):
        pass
    return chain(first, rest)


def _shown(attentions: Iterable[Attention], top: int, by: list[str]) -> Iterator[Attention]:
    """Print each result and pass it on."""
    lines: list[str] = []
    for attention in attentions:
        if lines:
            print()
        lines = _lines(attention, top, by)
        print("\n".join(lines), flush=True)
        yield attention
    if not lines:
        raise DataError("there are no texts to look at")


def _lines(attention: Attention, top: int, by: list[str]) -> list[str]:
    """What is said of one prediction."""
    from graphattn.experiments.drawing.canvas import printable
    from graphattn.models.inspection.attention_map import TARGET

    found = attention.prediction
    if TARGET in attention.sentences and isinstance(attention.probabilities, dict):
        said = f"{printable(found, 500)} ({attention.probabilities[found]:.3f})"
    elif isinstance(attention.probabilities, dict):
        chances = ", ".join(f"{name} {chance:.3f}" for name, chance in attention.probabilities.items())
        label = ", ".join(map(str, found)) if isinstance(found, tuple) else str(found)
        said = f"{label or 'no label'} ({chances})"
    else:
        (sentence,) = attention.sentences.values()
        said = " ".join(f"{printable(word)}/{tag}" for word, tag in zip(sentence.words, found, strict=True))
    table = attention.top(top, by=by)
    if table.empty:
        return [printable(attention.title, 100), said, "no token has more than one edge"]
    for column in ("source_token", "target_token"):
        table[column] = [printable(token) for token in table[column]]
    table = table.drop(columns="scale")
    plain = table.to_string(index=False, float_format="{:.3f}".format)
    return [printable(attention.title, 100), said, *plain.splitlines()]


def _kept(attentions: Iterable[Attention]) -> list[Attention]:
    """All results, as long as they are not too many for one file."""
    from graphattn.models.inspection import limits

    kept: list[Attention] = []
    weights = 0
    for attention in attentions:
        kept.append(attention)
        weights += attention.num_weights
        if len(kept) > 1 and weights > limits.MOST_ROWS:
            raise ConfigError(
                f"the first {len(kept):,} texts have {weights:,} weights together; a file holds up to "
                f"{limits.MOST_ROWS:,} of several texts. Choose with --layer, --head or --relation, give fewer texts, "
                "or sum up with --summary"
            )
    return kept


def _write(attentions: list[Attention], out: Path | None, picture: Path | None, kind: str) -> None:
    """What is asked for of a table and a picture; their names are printed."""
    if out is not None:
        _save(attentions, out)
        print(out)
    if picture is not None:
        _draw(attentions[0], picture, kind)
        print(picture)


def _save(attentions: list[Attention], out: Path) -> None:
    """One result in any format; of several the tables, with the number of the text."""
    if len(attentions) == 1:
        attentions[0].save(out)
        return
    from graphattn.models.inspection.files import save_table

    save_table(_joined(attentions), out)


def _joined(attentions: list[Attention]) -> pd.DataFrame:
    import pandas as pd

    tables = [attention.table() for attention in attentions]
    for number, table in enumerate(tables):
        table.insert(0, "sentence", number)
    return pd.concat(tables, ignore_index=True)


def _draw(attention: Attention, picture: Path, kind: str) -> None:
    from graphattn.experiments.drawing import draw_arcs, draw_matrices

    draw = {"arcs": draw_arcs, "matrices": draw_matrices}[kind]
    draw(attention, picture)


def _write_page(columns: list[tuple[Path, Estimator, list[Attention]]], html: Path) -> None:
    from graphattn.experiments.page import page_model, write_page

    found = columns[0][-1]
    title = found[0].title if len(found) == 1 else f"{len(found):,} texts"
    write_page(html, [page_model(*column) for column in columns], title=title)


def _serve(models: list[Path], host: str, port: int) -> None:
    from graphattn.experiments.page import count_texts, live_model, serve
    from graphattn.models import load

    estimators = [load(path) for path in models]
    texts = count_texts(estimators)
    live = [live_model(path, estimator) for path, estimator in zip(models, estimators, strict=True)]
    for one in live:
        one.explain(["a"] * texts)  # what cannot be shown is refused before anybody types

    def ready(address: str) -> None:
        print(f"{address} shows the page; Ctrl-C ends it", flush=True)

    serve(live, texts=texts, host=host, port=port, ready=ready)


def _summarise(
    estimator: Estimator,
    texts: Iterable[Any],
    other: Estimator | None,
    out: Path | None,
    picture: Path | None,
    layer: int,
) -> None:
    """Print the sums of a corpus by head, and write all of them where that is asked for."""
    from graphattn.experiments.cli.progress_bars import shown
    from graphattn.models.inspection import compare_summaries, summarise
    from graphattn.models.inspection.summary import save_tables

    kept = texts if other is None else list(texts)
    found = summarise(estimator, kept, progress=lambda inputs: shown(inputs, "Looking"))
    tables = found.tables()
    if other is not None:
        tables = compare_summaries(found, summarise(other, kept), ("first", "second"))
    print(f"{found.texts:,} texts")
    by_head = tables["scales"].merge(tables["entropy"], on=["layer", "head", "relation"])
    print(by_head.to_string(index=False, float_format="{:.2f}".format))
    if out is not None:
        print(save_tables(tables, out))
    if picture is not None:
        from graphattn.experiments.drawing import draw_distances

        print(draw_distances(found, picture, layer=layer))
