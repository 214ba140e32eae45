"""Write the tables of options into docs/options.md: ``python docs/list_options.py``.

The tables are read from the classes of options and from the layers of their defaults; examples are those below.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphattn.experiments._cli.flags import as_flag, merge_flags
from graphattn.experiments._cli.training_plan import PANELS, list_encoders, training_flags
from graphattn.models import TASKS, Estimator
from graphattn.models._encoders import options_class
from graphattn.models.defaults import DEFAULT, SET, Facts, resolve
from graphattn.options import Option, list_options

PAGE = Path(__file__).parent / "options.md"
TABLES = re.compile(r"(?<=<!-- options -->\n).*?(?=<!-- end of options -->)", re.DOTALL)
ABOUT = {
    "Task": "What is learnt, from which model, and what measures it.",
    "Corpus": "How the files of a corpus are [read](read.md).",
    "Words": "[Words](words.md), their [vectors](word-vectors.md) and [characters](tag.md#lexicon-features).",
    "Encoder": "The [encoder](encoders.md): its edges and layers. In brackets: encoders that have an option.",
    "Head": "The layers after the encoder, and the [linear model](train-defaults.md) beside it.",
    "Training": "How a model is [trained](train-defaults.md), and for [how long](train-long.md).",
    "Parser": "Who [parses](parses.md) texts without heads.",
    "Pretrained": "The [pretrained model](pretrained.md) below the encoder.",
    "Sub-words": "Sub-words of a [translator](translate.md).",
    "Decoder": "The decoder of a [translator](translate.md).",
    "Search": "How a [translator](translate.md) searches for an output.",
}
"""Group -> what its options decide."""
EXAMPLES: Mapping[str, str] = {
    "init_from": "model",
    "keep_from": "old.tsv", "keep_dev": "old-dev.tsv",
    "dev": "dev.tsv", "test": "test.tsv", "class_weight": "balanced", "tune_threshold": "f1",
    "feature_columns": "amount:number", "format": "labelled", "text_column": "title,body",
    "second_column": "hypothesis",
    "label_column": "stars", "label_separator": "';'", "text_separator": "'<sep>'", "columns": "label,none,text",
    "drop_label": "-", "delimiter": "';'", "separator": "' '", "encoding": "cp1252", "sentence_column": "sentence_id",
    "token_column": "3", "tag_column": "10", "predicate_column": "2", "tags": "xpos", "layer": "NamedEntity",
    "comment": "'#'", "min_count": "2", "vocabulary_size": "20000", "vectors": "glove.6B.100d.txt", "embedding": "100",
    "embedding_dropout": "0.5", "word_dropout": "0.2", "max_tokens_per_text": "512", "predicate_embedding": "50",
    "character_embedding": "16", "character_filters": "30", "suffixes": "3", "gazetteer": "names.txt",
    "hidden": "128", "layers": "4", "dropout": "0.1", "heads": "window:3=4,star=2", "head_feats": "30",
    "scales": "1,3,N/4", "alpha": "1", "relations": "backward=1", "attn_drop": "0.1", "ffn": "800",
    "ffn_dropout": "0.1", "masks": "forward", "bound": "10", "source_maps": "1", "window": "5", "fusion": "300",
    "parts": "300,100", "relative_positions": "8", "graph_seed": "1", "kernels": "3,7", "head_hidden": "0",
    "head_dropout": "0.5", "epochs": "10", "minutes": "5", "batch_size": "16", "max_tokens": "8192",
    "max_edges": "1000000", "learning_rate": "1e-3", "weight_decay": "0.01", "beta2": "0.98", "decay": "0.1",
    "warmup": "0.05", "warmup_steps": "4000", "clip": "1", "label_smoothing": "0.1", "average": "0.99",
    "average_epochs": "5", "accumulate": "2", "patience": "10", "metric": "macro_f1", "dev_fraction": "0.2",
    "seed": "1", "device": "cuda:1", "devices": "2", "nodes": "2", "strategy": "fsdp", "run_dir": "runs/1",
    "checkpoint_minutes": "none", "parser_language": "de", "parser_package": "gsd", "parser_model": "stanza_models",
    "parse_cache": "parses.sqlite", "parser_device": "cpu", "pretrained": "sentence-transformers/all-MiniLM-L6-v2",
    "pretrained_heads": "all=8,window:17=4", "pretrained_length": "1024", "tuned_layers": "2", "tuning_rate": "5e-5",
    "layer_decay": "1", "longest": "256", "decoder_layers": "6", "decoder_heads": "8", "decoder_ffn": "2048",
    "decoder_dropout": "0.3", "decoder_ffn_dropout": "0.1", "decoder_attn_drop": "0.1", "beam": "8",
    "length_penalty": "0.6", "min_length": "5", "max_length": "100", "no_repeat_ngram": "3", "temperature": "0.8",
    "top_k": "50", "top_p": "0.9", "sample_seed": "1",
}  # fmt: skip
"""Option -> a value that somebody sets; those of switches and of lists of choices follow from their definition."""
OF_TAGGERS: Mapping[str, str] = {"feature_columns": "pos=1"}
"""Options that mean something else for taggers, with a row of their own -> an example."""
REASONS = {
    "task": "for the task",
    "linear model": "beside a linear model",
    "pretrained model": "with `--pretrained`",
    "preset": "with `--preset {}`",
}
"""Name of a layer of defaults -> how the page says it; others are what decides, such as the encoder."""


@dataclass(frozen=True)
class Entry:
    """An option in a table."""

    flag: Option
    """With the default of its class."""
    tasks: tuple[str, ...]

    @property
    def example(self) -> str:
        """The flag with a value, or the switch that changes the default.

        Raises
        ------
        KeyError
            for an option without an example
        """
        name, default = self.flag.name, self.flag.default
        if self.flag.value_type is bool:
            return as_flag(f"{name}={not default}")
        if self.flag.choices and name not in EXAMPLES:
            return as_flag(f"{name}={next(choice for choice in self.flag.choices if choice != default)}")
        examples = OF_TAGGERS if self.tasks == ("tag",) and name in OF_TAGGERS else EXAMPLES
        return f"{as_flag(name)} {examples[name]}"


def collect_entries() -> dict[str, list[Entry]]:
    """Group -> its options in all tasks."""
    collected: dict[tuple[str, str, bool], Entry] = {}
    for name, task in TASKS.items():
        defaults = {
            (find_panel(group, options), item.name): item.default
            for group, options in task.option_groups.items()
            if group != "encoder"
            for item in list_options(options)
        }
        encoders = {encoder: list_options(options_class(encoder)) for encoder in list_encoders(task)}
        of_encoders = {flag.name: flag for flag in merge_flags(encoders, "Encoder")}
        for flag in training_flags(task):
            panel = str(flag.panel)
            key = (panel, flag.name, name == "tag" and flag.name in OF_TAGGERS)
            default = defaults.get((panel, flag.name), flag.default)
            shown = of_encoders[flag.name] if panel == "Encoder" else replace(flag, default=default)
            first = collected.get(key, Entry(shown, ()))
            choices = tuple(dict.fromkeys((*(first.flag.choices or ()), *(flag.choices or ())))) or None
            collected[key] = Entry(replace(first.flag, choices=choices), (*first.tasks, name))
    entries: dict[str, list[Entry]] = defaultdict(list)
    for (panel, *_), entry in collected.items():
        entries[panel].append(entry)
    return entries


def find_panel(group: str, options: type) -> str:
    """The heading of a group in ``--help``."""
    return "Task" if group == "files" else PANELS.get(options, group.capitalize())


def list_cases(task: type[Estimator]) -> Iterator[dict[str, Any]]:
    """What may be set, and gives other options of a task other defaults."""
    yield {}
    if "head" in task.option_groups:
        yield {"linear_branch": False}
    if "preset" in (flags := {flag.name: flag for flag in training_flags(task)}):
        yield from ({"preset": preset} for preset in flags["preset"].choices or () if preset != "default")
    if "pretrained" in task.option_groups:
        yield {"pretrained": "OWNER/NAME"}


@dataclass(frozen=True)
class Reason:
    """Why an option has another default than that of its class, and for which tasks."""

    text: str
    tasks: tuple[str, ...] = ()


def explain_defaults() -> dict[tuple[str, str], dict[str, list[Reason]]]:
    """(group, option) -> another default -> its reasons."""
    tasks_of: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    users: dict[str, list[str]] = defaultdict(list)
    for name, task in TASKS.items():
        for case in list_cases(task):
            groups: dict[str, Any] = {
                group: options.from_values(case) for group, options in task.option_groups.items() if group != "files"
            }
            groups["encoder"] = options_class(task.task.default_encoder)()
            derive = "pretrained" not in case  # whose files would be read
            resolved = resolve(task.task, groups, Facts(examples=1000) if derive else None, derive=derive)
            preset = getattr(resolved["task"], "preset", None)
            users[REASONS["preset"].format(preset)].append(name)
            for group, option, value, reason in resolved.rows(task.unused_options):
                if reason not in (SET, DEFAULT):
                    text = REASONS[reason].format(preset) if reason in REASONS else f"by the {reason}"
                    shown = f"`{format_value(value)}`" if reason in REASONS else ""
                    tasks_of[find_panel(group, type(resolved[group])), option, shown, text].append(name)
    explained: dict[tuple[str, str], dict[str, list[Reason]]] = defaultdict(lambda: defaultdict(list))
    for (panel, option, shown, text), tasks in tasks_of.items():
        everywhere = text in users and set(tasks) == set(users[text])
        explained[panel, option][shown].append(Reason(text, () if everywhere else tuple(dict.fromkeys(tasks))))
    return explained


def format_reasons(by_value: Mapping[str, Sequence[Reason]], entry: Entry) -> str:
    """Other defaults of an option, with what decides them."""
    parts = []
    for shown, reasons in by_value.items():
        texts: dict[str, list[str]] = defaultdict(list)
        for reason in reasons:
            texts[name_tasks(reason.tasks, entry.tasks)].append(reason.text)
        joined = ", ".join(
            " or ".join(of_tasks).replace(" or with ", " or ") + tasks for tasks, of_tasks in texts.items()
        )
        parts.append(f"{shown} {joined}".strip())
    return "; ".join(parts)


def name_tasks(tasks: Sequence[str], among: Sequence[str]) -> str:
    """The tasks in brackets, unless they are all."""
    if not tasks or set(tasks) >= set(among):
        return ""
    others = [task for task in among if task not in tasks]
    return f" (not {', '.join(others)})" if len(others) < len(tasks) else f" ({', '.join(tasks)})"


def format_value(value: Any) -> str:
    """A value as on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    return ",".join(map(str, value)) or "none" if isinstance(value, (tuple, list)) else str(value) or "none"


def format_tables() -> str:
    """A heading and a table for each group of options."""
    explained, lines = explain_defaults(), []
    for panel, entries in collect_entries().items():
        lines += ["", f"## {panel}", "", ABOUT[panel], ""]
        lines += ["| flag | default | other defaults | example | what it does |", "|---|---|---|---|---|"]
        users = max((entry.tasks for entry in entries), key=len)
        for entry in entries:
            flag = entry.flag
            cells = (
                f"`{as_flag(flag.name)}`",
                f"`{format_value(flag.default)}`",
                format_reasons(explained.get((panel, flag.name), {}), entry),
                f"`{entry.example}`",
                flag.help + (f" [{', '.join(flag.choices)}]" if flag.choices else "") + name_tasks(entry.tasks, users),
            )
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join([*lines, "", ""])


def main() -> None:
    """Write the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLES.sub(lambda _: format_tables(), page), encoding="utf-8")


if __name__ == "__main__":
    main()
