"""``graphattn inspect``: attention weights as table, file, picture or page, and the words that decide predictions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from graphattn._validation import require_choice
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments._cli.corpus_options import CorpusOptions, parser_flags
from graphattn.experiments._cli.flags import Device, Values, as_flag, with_flags
from graphattn.experiments._cli.loaded_models import find_directory, load_model, load_sentence_encoder
from graphattn.experiments._cli.output import check_output, model_files, open_output, show_progress
from graphattn.options import list_options

if TYPE_CHECKING:
    from graphattn.models import Estimator
    from graphattn.models.inspection import Attention, AttentionSummary, BranchScores
    from graphattn.models.inspection.attributions import WordAttributions

Explanation = TypeVar("Explanation")
EXAMPLES = (
    'graphattn inspect model "a lovely film"\n\n'
    'graphattn inspect model "a lovely film" --layer 1 --by head --picture arcs.png\n\n'
    "graphattn inspect model reviews.txt --out weights.parquet\n\n"
    "graphattn inspect model reviews.txt --html page.html --other model2\n\n"
    "graphattn inspect --serve model model2\n\n"
    'graphattn inspect sentence-transformers/all-MiniLM-L6-v2 "The cat sat" --html page.html\n\n'
    'graphattn inspect model "a lovely film" --words --html words.html\n\n'
    "graphattn inspect model reviews.txt --summary --picture distances.png --out tables"
)
_UNUSED = {"drop_label", "label_column", "label_separator", "layer", "tag_column", "tags"}
_KINDS = ("arcs", "matrices")


@dataclass(frozen=True)
class Inspection:
    """The texts to inspect with a model, and the files to write."""

    load: Callable[[Path], Any]
    model: Path
    text: str  # or the name of a file
    options: CorpusOptions
    top: int  # edges, words or dependencies to print
    out: Path | None
    picture: Path | None
    html: Path | None
    other: Path | None  # a second model to compare with

    def check_files(self, suffixes: Sequence[str], *, may_be_folder: bool = False) -> None:
        """Reject files that cannot be written or are inputs, before any text is read; ``suffixes`` are of ``out``."""
        from graphattn.models.inspection._files import check_suffix

        out = None if may_be_folder and self.out is not None and not self.out.suffix else self.out
        if out is not None:
            check_suffix(out, suffixes)
        if self.picture is not None:
            from graphattn.experiments.drawing._canvas import check_format

            check_format(self.picture)
        if self.html is not None:
            check_suffix(self.html, (".html", ".htm"))
        models = filter(None, (self.model, self.other))
        inputs: list[str | Path] = [self.text, *(file for path in models for file in model_files(path))]
        for file in filter(None, (out, self.picture, self.html)):
            check_output(file, *inputs)

    def read_texts(self, estimator: Estimator) -> Iterator[Any]:
        """The inputs in a file or standard input, or the text itself; an error if it names a folder."""
        from graphattn.builders._paths import is_store
        from graphattn.experiments._cli.text_stream import read_texts

        text = self.text
        if text and os.path.isdir(text) and not is_store(text):
            raise DataError(
                "this is a folder", path=text, hint="Name a file in it, or pass the text on standard input."
            )
        return read_texts(
            text, estimator.task.corpus_kind, self.options, **estimator.task_.describe_reading(estimator.corpus_)
        )


@with_flags(flag_values=list_options(CorpusOptions, "Input", without=_UNUSED), parser=parser_flags())
def inspect(
    model: Annotated[
        Path,
        typer.Argument(help="Model directory written by train; or a Hugging Face directory, or a name on its hub."),
    ],
    flag_values: Values,
    parser: Values,
    text: Annotated[
        str | None, typer.Argument(help="A text (a pair with a tab between), or a file; - for standard input.")
    ] = None,
    *,
    layer: Annotated[int | None, typer.Option(help="Only this layer, counted from 0.")] = None,
    head: Annotated[int | None, typer.Option(help="Only this head of each layer, counted from 0.")] = None,
    relation: Annotated[str | None, typer.Option(help="Only heads on this relation, such as window:3.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of strongest edges to print.")] = 10,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Print that many per layer, head or relation; may be repeated, or comma-separated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for all weights: .parquet, .csv, .graphml, .gexf, .gml, .json or .html.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Picture to draw: .png, .svg or .pdf.")] = None,
    kind: Annotated[str, typer.Option(help="Kind of picture: arcs or matrices.")] = "arcs",
    summary: Annotated[bool, typer.Option("--summary", help="Statistics over all texts.")] = False,
    other: Annotated[
        Path | None, typer.Option(help="With --summary or --html: a second model to compare with.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Web page to write: one HTML file.")] = None,
    words: Annotated[
        bool, typer.Option("--words", help="Instead of edges, the words that decide the prediction.")
    ] = False,
    label: Annotated[
        str | None, typer.Option(help="With --words: explain this class, not the predicted one (why not B?).")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page with a text field; TEXT may be a second model.")
    ] = False,
    device: Device = "auto",
    pretrained_heads: Annotated[
        str | None, typer.Option(help="Edges of the heads of a Hugging Face directory, as in train: window:257|global.")
    ] = None,
    pretrained_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of the longest text for a Hugging Face directory.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="With --serve: address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="With --serve: port, 0 for a free one (default: 8000).")
    ] = None,
) -> None:
    """Show the attention weights of a text's edges.

    Prints the prediction, how much of its score the linear branch and the graph encoder give, and the strongest edges
    of each text, without edges that are the only one of their token: their weight is always one. A line says which
    heads have no others, and the last one whether the encoder gives little. With --summary, --out is a .json file or
    a folder.

    With --words, prints what each word adds to the log-odds of the prediction (integrated gradients, of all branches
    of the model); --out is then a .parquet or .csv file, --html the text with coloured words, --picture a bar for each
    word. --label explains another class than the predicted one.
    """
    load = partial(_load, parser=parser, device=device, heads=pretrained_heads, max_length=pretrained_length)
    selection = {"layer": layer, "head": head, "relation": relation}
    selecting = _set_flags(**selection, by=by or None)
    if serve:
        writing = _set_flags(out=out, picture=picture, html=html, other=other)
        writing += _set_flags(summary=summary or None, words=words or None)
        _reject([*selecting, *writing, *map(as_flag, flag_values)], "--serve only serves the page")
        models = [model] if text is None else [model, Path(text)]
        _serve([(path, load(path)) for path in models], host or "127.0.0.1", 8000 if port is None else port)
        return
    _reject(_set_flags(host=host, port=port), "only --serve listens")
    if text is None:
        raise typer.BadParameter("give a text or a file, or --serve", param_hint="TEXT")
    if label is not None and not words:
        raise ConfigError("--label is the class that --words explains; give both")
    inspection = Inspection(load, model, text, CorpusOptions(**flag_values), top, out, picture, html, other)
    if words:
        unused = _set_flags(other=other, summary=summary or None)
        _reject([*selecting, *unused], "--words shows words, not edges")
        _inspect_words(inspection, label)
    elif summary:
        reason = "--summary covers all layers, heads and relations; --layer selects that of its --picture"
        _reject([flag for flag in selecting if flag != "--layer" or picture is None], reason)
        _inspect_corpus(inspection, layer)
    else:
        require_choice("kind", kind, _KINDS)
        groups = [name.strip() for names in by or [] for name in names.split(",")]
        _inspect_texts(inspection, selection, groups, kind)


def _load(model: Path, parser: Values, device: str, **options: Any) -> Any:
    """A model, or the encoder of a Hugging Face directory; ``options`` are those of the encoder."""
    from graphattn.models.pretrained._checkpoint import is_hugging_face_directory

    model = find_directory(model)
    if is_hugging_face_directory(model):
        return load_sentence_encoder(model, parser, device=device, **options)
    flags = {"heads": "--pretrained-heads", "max_length": "--pretrained-length"}
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"{flags[name]} is for Hugging Face directories; {model} keeps what it was trained with")
    return load_model(model, parser, device=device, packed=False)


def _set_flags(**options: object) -> list[str]:
    """The flags of the options that are set."""
    return [as_flag(name) for name, value in options.items() if value is not None]


def _inspect_texts(inspection: Inspection, selection: dict[str, Any], by: list[str], kind: str) -> None:
    """Print the selected edges of each text and write the files; only a page shows a second model."""
    from graphattn.models.inspection._files import SUFFIXES

    if inspection.other is not None and inspection.html is None:
        raise ConfigError("{other} needs {summary=True} or {html}", options=("other", "summary", "html"))
    inspection.check_files(SUFFIXES)
    estimator = inspection.load(inspection.model)
    texts = _at_most_one(inspection.read_texts(estimator), inspection)
    second = None if inspection.other is None else inspection.load(inspection.other)
    if second is not None:
        texts = list(texts)
    attentions = _print_each(_attentions(estimator, texts, selection), inspection.top, by)
    if inspection.out is None and inspection.picture is None and inspection.html is None:
        for _ in attentions:
            pass
        return
    collected = _collect(attentions)
    columns = [(inspection.model, estimator, collected)]
    if inspection.other is not None and second is not None:
        columns.append((inspection.other, second, list(_attentions(second, texts, selection))))
    if inspection.out is not None:
        _save(collected, inspection.out)
        print(inspection.out)
    if inspection.picture is not None:
        from graphattn.experiments.drawing import draw_arcs, draw_matrices

        draw = draw_arcs if kind == "arcs" else draw_matrices
        draw(collected[0], inspection.picture)
        print(inspection.picture)
    if inspection.html is not None:
        from graphattn.models.inspection.page import page_model, write_page

        title = collected[0].title if len(collected) == 1 else f"{len(collected):,} texts"
        write_page(inspection.html, [page_model(*column) for column in columns], title=title)
        print(inspection.html)


def _inspect_words(inspection: Inspection, label: str | None) -> None:
    """Print the words with the largest attributions in each text; write the attributions of all words.

    ``label`` is the class that they explain, the predicted one when None.
    """
    from graphattn.models.inspection._files import save_table
    from graphattn.models.inspection.attributions import word_attributions
    from graphattn.models.inspection.attributions._words import words_html

    inspection.check_files((".parquet", ".csv"))
    estimator = inspection.load(inspection.model)
    texts = inspection.read_texts(estimator)
    if inspection.picture is not None:
        first_two = list(islice(texts, 2))
        if len(first_two) > 1:
            raise ConfigError("a {picture} shows one text, but there are more; give one", options=("picture",))
        texts = iter(first_two)
    explain = partial(word_attributions, estimator, label=None if label is None else _find_class(estimator, label))
    explained, branches = [], []
    for number, attributions in enumerate(_of_each(explain, texts)):
        if number:
            print()
        print("\n".join(_format_words(attributions, inspection.top)), flush=True)
        branches.append(attributions.branches)
        if inspection.picture is not None:
            from graphattn.experiments.drawing import draw_words

            draw_words(attributions, inspection.picture)
        if inspection.out is not None or inspection.html is not None:
            attributions.table.insert(0, "sentence", number)
            explained.append(attributions)
    _print_note(branches)
    if inspection.picture is not None:
        print(inspection.picture)
    if inspection.out is not None:
        import pandas as pd

        print(save_table(pd.concat([attributions.table for attributions in explained]), inspection.out))
    if inspection.html is not None:
        with open_output(inspection.html) as file:
            file.write('<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Words that decide</title>\n')
            file.writelines(f"{words_html(attributions)}\n" for attributions in explained)
        print(inspection.html)


def _find_class(estimator: Estimator, label: str) -> Any:
    """The class of this name; a class may be a number."""
    classes: dict[str, Any] = {str(each): each for each in getattr(estimator, "classes_", ())}
    if not classes:
        raise ConfigError("--label is for models with classes; leave it out")
    if label not in classes:
        raise ConfigError(f"--label is {label!r}, but the classes are: {', '.join(classes)}")
    return classes[label]


def _format_words(attributions: WordAttributions, top: int) -> list[str]:
    """The text, the explained quantity, and the words with the largest attributions."""
    from graphattn._networkx_graphs import CLS
    from graphattn.models._results.numbers import choose_format
    from graphattn.models.inspection.notebook import printable

    table = attributions.table[attributions.table.word != CLS]
    texts = [" ".join(rows.word) for _, rows in table.groupby("part", sort=False)]
    form = choose_format([attributions.value, attributions.baseline], 3)
    value, baseline = (format(number, form) for number in (attributions.value, attributions.baseline))
    quantity = f"{attributions.explains}: {value} ({baseline} if no word were known)"
    largest = table.sort_values("attribution", key=abs, ascending=False, kind="stable").head(top)
    shown = largest.assign(word=[printable(word) for word in largest.word])
    columns = ["part", "word", "attribution"] if len(texts) > 1 else ["word", "attribution"]
    form = choose_format(shown.attribution, 3, "+")
    rows = shown[columns].to_string(index=False, float_format=lambda number: format(number, form)).splitlines()
    of_branches = [] if attributions.branches is None else [printable(str(attributions.branches), 500)]
    heading = [printable(" / ".join(texts), 100), printable(quantity, 500), *of_branches]
    return [*heading, *(rows if len(shown) else ["no words"])]


def _inspect_corpus(inspection: Inspection, layer: int | None) -> None:
    """Print statistics by head, and write the files; ``layer`` is that of the picture."""
    from graphattn.models.inspection import compare_summaries, summarise
    from graphattn.models.inspection._summary import best_followers, save_tables, strongest_dependencies

    if inspection.html is not None:
        raise ConfigError("{html} shows single texts, {summary=True} all texts; give one", options=("html", "summary"))
    inspection.check_files([".json"], may_be_folder=True)
    estimator = inspection.load(inspection.model)
    texts: Iterable[Any] = inspection.read_texts(estimator)
    second = None if inspection.other is None else inspection.load(inspection.other)
    if inspection.picture is not None:
        texts = _check_layer(estimator, texts, layer)
    if second is not None:
        texts = list(texts)
    summary = summarise(estimator, texts, progress=lambda inputs: show_progress(inputs, "Inspecting"))
    tables, summaries = summary.tables(), {"": summary}
    if second is not None:
        of_second = summarise(second, texts)
        summaries = {"first: ": summary, "second: ": of_second}
        tables = compare_summaries(summary, of_second, ("first", "second"))
    print(f"{summary.texts:,} text{'s' * (summary.texts != 1)}")
    for name, each in summaries.items():
        for line in _name_deciding_branches(each):
            print(f"{name}{line}")
    by_head = tables["scales"].merge(tables["entropy"], on=["layer", "head", "relation"])
    print(by_head.to_string(index=False, float_format="{:.2f}".format))
    entropy = summary.entropy()
    for line in _name_single_edge_heads(entropy[entropy.evenness.isna()].relation, len(entropy)):
        print(line)
    arcs = strongest_dependencies(tables["dependencies"], inspection.top)
    if len(arcs):
        print(f"\ndependencies, strongest {len(arcs)}\n{arcs.to_string(index=False, float_format='{:.3f}'.format)}")
    for name, each in summaries.items():
        followed = best_followers(each.arcs(), inspection.top)
        if len(followed):
            text = followed.to_string(index=False, float_format="{:.2f}".format)
            print(f"\n{name}words whose strongest edge is their arc, by the head that follows it most often\n{text}")
    if inspection.out is not None:
        print(save_tables(tables, inspection.out))
    if inspection.picture is not None:
        from graphattn.experiments.drawing import draw_distances

        draw_distances(summary, inspection.picture, layer=layer or 0)
        print(inspection.picture)


def _serve(models: list[tuple[Path, Estimator]], host: str, port: int) -> None:
    from graphattn.experiments._serving.requests import require_texts
    from graphattn.experiments.page._live_models import count_texts, live_model
    from graphattn.experiments.page._server import serve

    texts = count_texts([estimator for _, estimator in models])
    for path, estimator in models:
        require_texts(path.absolute().name, estimator)
    live = [live_model(path, estimator) for path, estimator in models]
    for live_page in live:
        live_page.explain(["a"] * texts)  # report a model without attention now

    def ready(address: str) -> None:
        print(f"{address} shows the page; Ctrl-C ends it", flush=True)

    serve(live, texts=texts, host=host, port=port, ready=ready)


def _at_most_one(texts: Iterable[Any], inspection: Inspection) -> Iterable[Any]:
    """The texts; raise if there are several but an output holds only one."""
    from graphattn.models.inspection._files import TABLES

    suffix = "" if inspection.out is None else inspection.out.suffix.lower()
    if inspection.picture is not None:
        message = "a {picture} shows one text, but there are more; give one, or {summary=True}"
    elif suffix and suffix not in TABLES:
        message = f"a {suffix} file holds one text, but there are more; give one, or save to .parquet or .csv"
    else:
        return texts
    first_two = list(islice(texts, 2))
    if len(first_two) > 1:
        raise ConfigError(message, options=("picture", "summary"))
    return first_two


def _reject(flags: Iterable[str], reason: str) -> None:
    for flag in sorted(flags):
        raise ConfigError(f"{reason}; leave {flag} out")


def _attentions(estimator: Estimator, texts: Iterable[Any], selection: dict[str, Any]) -> Iterator[Attention]:
    """The selected weights of each text."""
    for attention in _of_each(estimator.attention, texts):
        yield attention.only(**selection)


def _of_each(explain: Callable[[Any], Explanation], texts: Iterable[Any]) -> Iterator[Explanation]:
    """Explain each text; errors name its number."""
    for number, text in enumerate(texts, start=1):
        try:
            explanation = explain(text)
        except DataError as error:
            raise DataError(f"text {number}: {error.message}", hint=error.hint, options=error.options) from error
        yield explanation


def _check_layer(estimator: Estimator, texts: Iterable[Any], layer: int | None) -> Iterator[Any]:
    """The texts; raise now if the first of them shows that there is no such layer."""
    remaining = iter(texts)
    first = list(islice(remaining, 1))
    for _ in _attentions(estimator, first, {"layer": layer}):
        pass
    return chain(first, remaining)


def _print_each(attentions: Iterable[Attention], top: int, by: list[str]) -> Iterator[Attention]:
    """Print and yield each result."""
    branches: list[BranchScores | None] = []
    for attention in attentions:
        if branches:
            print()
        print("\n".join(_format_attention(attention, top, by)), flush=True)
        branches.append(attention.branches)
        yield attention
    if not branches:
        raise DataError("there are no texts")
    _print_note(branches)


def _print_note(branches: Iterable[BranchScores | None]) -> None:
    """Say so if the graph encoder gives little of the scores of the texts."""
    from graphattn.models.inspection._branch_scores import note_small_share

    if note := note_small_share(branches):
        print(note)


def _format_attention(attention: Attention, top: int, by: list[str]) -> list[str]:
    """Title, prediction, what decides it, and strongest edges."""
    from graphattn.models.inspection._attention_map import for_display
    from graphattn.models.inspection.notebook import printable

    lines = [printable(attention.title, 100), *filter(None, [format_prediction(attention)])]
    lines += [] if attention.branches is None else [printable(str(attention.branches), 500)]
    table = attention.top(top, by=by)
    if table.empty:
        return [*lines, "no token has more than one edge"]
    table = for_display(table)
    for column in table.columns.intersection(["source_token", "target_token", "source_word", "target_word"]):
        table[column] = [printable(token) for token in table[column]]
    text = table.to_string(index=False, float_format="{:.3f}".format)
    heads = {(each.layer, head) for each in attention.maps for head in each.heads}
    return [*lines, *text.splitlines(), *_name_single_edge_heads(attention.single_edge_heads().values(), len(heads))]


def _name_deciding_branches(summary: AttentionSummary) -> list[str]:
    """A line on the branches' shares of the scores, and the note on a small one; none without a linear branch."""
    from graphattn.models.inspection._branch_scores import format_percent

    shares = ", ".join(f"{name} {format_percent(share)}" for name, share in summary.branch_sums.shares().items())
    note = summary.branch_sums.note(f"the scores of {summary.texts:,} text{'s' * (summary.texts != 1)}")
    return [f"shares of the scores: {shares}", *filter(None, [note])] if shares else []


def _name_single_edge_heads(relations: Iterable[str], total: int) -> list[str]:
    """A line on the heads of these relations, in which each token has one edge; none without such heads."""
    relations = list(relations)
    if not relations:
        return []
    names = ", ".join(dict.fromkeys(relations))
    longer = "; in longer texts, windows of N/... are wider" if "window:N/" in names else ""
    return [f"{len(relations)} of {total} heads have one edge for each token, of weight 1: {names}{longer}"]


def format_prediction(attention: Attention) -> str:
    """The prediction in one line, with probabilities if there are any; empty without a prediction."""
    from graphattn.models.inspection._attention_map import TARGET
    from graphattn.models.inspection.notebook import printable

    prediction, probabilities = attention.prediction, attention.probabilities
    if prediction is None:
        return ""
    if not isinstance(probabilities, dict):
        (sentence,) = attention.sentences.values()
        special = len(sentence.words) > len(prediction)  # a pretrained model's sentence begins and ends with them
        words = sentence.words[special : special + len(prediction)]
        return " ".join(f"{printable(word)}/{tag}" for word, tag in zip(words, prediction, strict=True))
    if TARGET in attention.sentences:
        return f"{printable(prediction, 500)} ({probabilities[prediction]:.3f})"
    label = ", ".join(map(str, prediction)) if isinstance(prediction, tuple) else str(prediction)
    classes = ", ".join(f"{name} {probability:.3f}" for name, probability in probabilities.items())
    return f"{label or 'no label'} ({classes})" if probabilities else label


def _collect(attentions: Iterable[Attention]) -> list[Attention]:
    """All results, unless they are too many for one file."""
    from graphattn.models.inspection import limits

    collected: list[Attention] = []
    weights = 0
    for attention in attentions:
        collected.append(attention)
        weights += attention.num_weights
        if len(collected) > 1 and weights > limits.MOST_ROWS:
            raise ConfigError(
                f"the first {len(collected):,} texts have {weights:,} weights; the limit for a file of several texts "
                f"is {limits.MOST_ROWS:,}. Use {{layer}}, {{head}} or {{relation}}, fewer texts, or {{summary=True}}",
                options=("layer", "head", "relation", "summary"),
            )
    return collected


def _save(attentions: list[Attention], out: Path) -> None:
    """Save one result in any format, or the tables of several with the number of the text."""
    if len(attentions) == 1:
        attentions[0].save(out)
        return
    import pandas as pd

    from graphattn.models.inspection._files import save_table, table_of_edges

    tables = [table_of_edges(attention) for attention in attentions]
    for number, table in enumerate(tables):
        table.insert(0, "sentence", number)
    save_table(pd.concat(tables, ignore_index=True), out)
