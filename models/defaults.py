"""The value of every option of an estimator, and why it has it: :func:`resolve`.

An option that was set keeps its value. Every other one has the default of its class, unless a layer of :data:`LAYERS`
says otherwise; later layers win. :data:`DERIVED` then decides what is still open because it depends on other options,
and :data:`LIMITS` what the model cannot have. Training changes no option afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from graphattn._validation import suggest
from graphattn.exceptions import ConfigError
from graphattn.models._estimators.tasks.recipes import BESIDE_LINEAR_MODEL_WITH_VECTORS
from graphattn.models._options import EPOCHS_BESIDE_LINEAR_MODEL
from graphattn.models.heads._pooling import CLS_POOLINGS
from graphattn.models.pretrained._options import DEFAULT_EPOCHS
from graphattn.options import Options

if TYPE_CHECKING:
    from graphattn.models._estimators.tasks.task import Task

Values = Mapping[str, Mapping[str, Any]]
"""Group of options -> option -> value."""
Groups = Mapping[str, Any]
"""Group -> its options. ``task`` has the arguments of the estimator, ``encoder`` those of one encoder."""

SET, DEFAULT = "set", "default"
"""Reasons of values that no layer decided."""
TRAINING_LAYERS = (TRAINED, TUNING, TRAINING_SET, MINUTES) = (
    "model to continue from",
    "cross-validation",
    "training set",
    "minutes",
)
"""Names of layers that are known in training only."""


@dataclass(frozen=True)
class Facts:
    """What is known of the corpus, and of the model to continue from; nothing is before they are read."""

    examples: int | None = None
    """Number of training examples, with those that will be held out."""
    has_predicates: bool = False
    """Whether predicates are marked in the training set."""
    metric: str | None = None
    """The dev metric, if the dev set is not fit for the one that the options ask for."""
    epochs: int | None = None
    """The number of epochs that fit into ``minutes``, once the speed is known."""
    tuning: Values = field(default_factory=dict)
    """The way of training that cross-validation chose."""
    trained: Values = field(default_factory=dict)
    """Options that keep the value of the model to continue from."""
    dropped: Values = field(default_factory=dict)
    """Options of the model to continue from that no longer fit, with the values that replace them."""


class Resolved(Mapping[str, Any]):
    """Group -> options that store all values, and the reason of each value."""

    def __init__(self, task: type[Task], groups: Groups, reasons: Mapping[str, Mapping[str, str]]):
        self._task, self._groups, self._reasons = task, dict(groups), reasons

    @override
    def __getitem__(self, group: str) -> Any:
        return self._groups[group]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    @override
    def __len__(self) -> int:
        return len(self._groups)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resolved) and self._groups == other._groups

    __hash__ = None  # type: ignore[assignment]

    def why(self, option: str) -> str:
        """What decided the value of an option: ``"set"``, ``"default"``, or the name of a layer.

        Raises
        ------
        ConfigError
            for an unknown name
        """
        reasons = {name: reason for of_group in self._reasons.values() for name, reason in of_group.items()}
        if option not in reasons:
            raise ConfigError(f"there is no option {option!r}; {suggest(option, reasons)}rows() lists all")
        return reasons[option]

    def rows(self, unused: Collection[str] = ()) -> list[tuple[str, str, Any, str]]:
        """(group, option, value, reason) of each option, without the ``unused`` ones."""
        return [
            (group, name, getattr(options, name), self._reasons[group][name])
            for group, options in self._groups.items()
            for name in self._reasons[group]
            if name not in unused
        ]

    def list_changes(self, unused: Collection[str] = ()) -> dict[str, Any]:
        """Option -> value of those that were set, or decided by training, and differ from the defaults otherwise."""
        kept = {"task": ("preset",), "pretrained": ("pretrained",)}
        defaults = resolve(self._task, {name: group.keep(kept.get(name, ())) for name, group in self._groups.items()})
        changes = {
            name: value
            for group, name, value, reason in self.rows(unused)
            if reason in (SET, *TRAINING_LAYERS) and value != getattr(defaults[group], name)
            if name not in _list_sizes(self[group])
        }
        named = {name: getattr(self[group], name) for group, (name,) in kept.items() if hasattr(self[group], name)}
        return {**{name: value for name, value in named.items() if value not in (None, "default")}, **changes}

    def restore(self, saved: Groups) -> Resolved:
        """The values of a saved model, whose training set may have decided some."""
        reasons = {group: dict(of_group) for group, of_group in self._reasons.items()}
        for group, options in saved.items():
            for name in reasons[group].keys() - _list_sizes(options):
                if getattr(options, name) != getattr(self._groups[group], name):
                    reasons[group][name] = TRAINING_SET
        return Resolved(self._task, {**self._groups, **saved}, reasons)

    def reuse(self, previous: Resolved) -> Resolved:
        """The same, with the objects of an earlier result where their values are equal: inputs already hold these."""
        groups = {name: previous[name] if previous[name] == group else group for name, group in self.items()}
        return Resolved(self._task, groups, self._reasons)


def resolve(task: type[Task], options: Groups, facts: Facts | None = None, *, derive: bool = True) -> Resolved:
    """The value of every option.

    Parameters
    ----------
    task : class of the task
    options : group -> options, of which those that were set keep their values
    facts : what is known of the training set
    derive : whether to decide also what depends on other options; ``--help`` lists the defaults without that
    """
    facts = Facts() if facts is None else facts
    groups = {name: group.fill() for name, group in options.items()}
    reasons = {
        name: {item.name: SET if item.name in vars(group) else DEFAULT for item in fields(group)}
        for name, group in options.items()
    }

    def is_unset(group: str, name: str) -> bool:
        return reasons[group][name] != SET

    def is_open(group: str, name: str) -> bool:
        return getattr(groups[group], name) is None

    steps = [*((layer, is_unset) for layer in LAYERS)]
    if derive:
        steps += [*((layer, is_open) for layer in DERIVED), *((layer, lambda *_: True) for layer in LIMITS)]
    for layer, may_replace in steps:
        for group, values in layer.find(task, groups, facts).items():
            for name, value in values.items():
                known = name in reasons.get(group, ())
                if known and getattr(groups[group], name) != value and may_replace(group, name):
                    setattr(groups[group], name, value)
                    reasons[group][name] = layer.name
    return Resolved(task, groups, reasons)


@dataclass(frozen=True)
class Layer:
    """A reason for values of options, and the values, given the task, the options so far, and the facts."""

    name: str
    find: Callable[[type[Task], Groups, Facts], Values]


# -- layers of defaults ------------------------------------------------------------------------------------------------


def _of_task(task: type[Task], options: Groups, facts: Facts) -> Values:
    return task.default_options(type(options["encoder"]))


def _of_preset(task: type[Task], options: Groups, facts: Facts) -> Values:
    preset = task.preset_options(_find_preset(options), type(options["encoder"]))
    replaced = options["pretrained"].pretrained and task.fine_tuning
    return {"encoder": preset.get("encoder", {})} if replaced else preset


def _of_linear_model(task: type[Task], options: Groups, facts: Facts) -> Values:
    """A graph encoder beside a linear model is smaller and trained for less time, as the linear model is good alone."""
    return task.beside_linear_model(type(options["encoder"])) if _has_linear_model(task, options, facts) else {}


def _of_word_vectors(task: type[Task], options: Groups, facts: Facts) -> Values:
    has_both = _has_linear_model(task, options, facts) and options["inputs"].vectors
    return BESIDE_LINEAR_MODEL_WITH_VECTORS if has_both else {}


def _has_linear_model(task: type[Task], options: Groups, facts: Facts) -> bool:
    if _find_preset(options) != "default" or options["pretrained"].pretrained or facts.has_predicates:
        return False
    limits = task.limit_options(options).get("head", {})
    return "head" in options and options["head"].linear_branch and limits.get("linear_branch", True)


def _of_pretrained(task: type[Task], options: Groups, facts: Facts) -> Values:
    return task.fine_tuning if options["pretrained"].pretrained else {}


def _of_trained_model(task: type[Task], options: Groups, facts: Facts) -> Values:
    return facts.trained


def _of_tuning(task: type[Task], options: Groups, facts: Facts) -> Values:
    return facts.tuning


def _of_other_options(task: type[Task], options: Groups, facts: Facts) -> Values:
    """A contrastive start is followed by a frozen model, which encodes the texts of a pair apart."""
    pretrained, training = options["pretrained"], options["training"]
    frozen = bool(pretrained.contrastive) if pretrained.frozen is None else pretrained.frozen
    values: dict[str, dict[str, Any]] = {"pretrained": {}}
    if pretrained.frozen is None and frozen:
        values["pretrained"]["frozen"] = True
    if frozen and "join_pairs" not in facts.trained.get("pretrained", {}):
        values["pretrained"]["join_pairs"] = False
    if training.average_epochs is not None:
        values["training"] = {"average": None}
    return values


LAYERS = (
    Layer("task", _of_task),
    Layer("preset", _of_preset),
    Layer("linear model", _of_linear_model),
    Layer("word vectors", _of_word_vectors),
    Layer("pretrained model", _of_pretrained),
    Layer(TRAINED, _of_trained_model),
    Layer(TUNING, _of_tuning),
    Layer("other options", _of_other_options),
)
"""What changes the defaults of options that were not set, in this order."""


# -- what depends on other options -------------------------------------------------------------------------------------


def _of_encoder(task: type[Task], options: Groups, facts: Facts) -> Values:
    encoder, inputs = options["encoder"], options["inputs"]
    cls = encoder.begins_with_cls if inputs.cls is None else inputs.cls
    pooling = "max" if encoder.pooling == "cls+max" and not cls else encoder.pooling
    head = {"pooling": pooling, **({"head_hidden": 0} if encoder.linear_head else {})}
    longest = encoder.max_tokens if task.truncates else None
    return {"inputs": {"cls": cls, "max_tokens_per_text": longest}, "head": head}


def _of_frozen_model(task: type[Task], options: Groups, facts: Facts) -> Values:
    pretrained = options["pretrained"]
    if not (pretrained.frozen and pretrained.pretrained and "head" in options and options["head"].pooling is None):
        return {}
    from graphattn.models.pretrained._sentence_settings import find_pooling

    return {"head": {"pooling": find_pooling(pretrained.pretrained)}}


def _of_other_options_of_task(task: type[Task], options: Groups, facts: Facts) -> Values:
    return task.derive_options(options)


def _of_minutes(task: type[Task], options: Groups, facts: Facts) -> Values:
    return {} if facts.epochs is None else {"training": {"epochs": facts.epochs}}


def _of_training_set(task: type[Task], options: Groups, facts: Facts) -> Values:
    training = options["training"]
    if (
        training.minutes is not None or facts.examples is None or options["pretrained"].frozen
    ):  # a frozen model has no epochs
        return {}
    counts: Mapping[str, int] = {}
    if options["pretrained"].pretrained and task.fine_tuning:
        counts = DEFAULT_EPOCHS
    elif _has_linear_model(task, options, facts):
        counts = task.epochs_with_vectors if options["inputs"].vectors else EPOCHS_BESIDE_LINEAR_MODEL
    return {"training": {"epochs": training.resolve_epochs(facts.examples, **counts)}}


DERIVED = (
    Layer("pretrained model", _of_frozen_model),
    Layer("encoder", _of_encoder),
    Layer("task", _of_other_options_of_task),
    Layer(TRAINING_SET, _of_training_set),
)
"""What decides options that are still None."""


# -- what a model cannot have ------------------------------------------------------------------------------------------


def _without_branch(task: type[Task], options: Groups, facts: Facts) -> Values:
    return {} if task.linear_branch is not None else {"head": {"linear_branch": False}}


def _limits_of_task(task: type[Task], options: Groups, facts: Facts) -> Values:
    return task.limit_options(options)


def _limits_of_training_set(task: type[Task], options: Groups, facts: Facts) -> Values:
    values = {group: dict(of_group) for group, of_group in facts.dropped.items()}
    if facts.has_predicates:  # the linear branch does not see their marks
        values["head"] = {"linear_branch": False}
    if facts.metric is not None:
        values["training"] = {"metric": facts.metric}
    return values


LIMITS = (
    Layer(MINUTES, _of_minutes),
    Layer("task", _without_branch),
    Layer("other options", _limits_of_task),
    Layer(TRAINING_SET, _limits_of_training_set),
)
"""What replaces options, also those that were set."""


# -- rules, which only reject ------------------------------------------------------------------------------------------


def check_options(task: type[Task], options: Groups) -> None:
    """Validate each group, and the rules between groups.

    Raises
    ------
    ConfigError
        naming the options and a fix
    """
    for of_group in options.values():
        of_group.validate()
    task.check_options(options["encoder"], options)
    _check_encoder(options)
    _check_epochs(options)
    if "head" in options:
        _check_head(task, options)


def _check_encoder(options: Groups) -> None:
    if options["encoder"].name == "pretrained" and not options["pretrained"].pretrained:
        raise ConfigError(
            "{encoder=pretrained} needs {pretrained}: a Hugging Face directory, or OWNER/NAME on the hub",
            options=("encoder", "pretrained"),
        )


def _check_epochs(options: Groups) -> None:
    training = options["training"]
    has_branch = "head" in options and options["head"].linear_branch
    if training.epochs == 0 and not (has_branch or options["pretrained"].frozen):
        problem = "{epochs=0} leaves nothing to train without {linear_branch}"
        raise ConfigError(f"{problem}; give a larger number", options=("epochs", "linear_branch"))


def _check_head(task: type[Task], options: Groups) -> None:
    head = options["head"]
    if task.joins_pairs(options) and head.linear_branch:
        raise ConfigError("{linear_branch} needs {join_pairs=False}", options=("linear_branch", "join_pairs"))
    if head.pooling in CLS_POOLINGS and not options["inputs"].cls:
        raise ConfigError(
            f"{{pooling}} {head.pooling} needs [CLS]; set {{cls=True}}, or choose another {{pooling}}",
            options=("pooling", "cls"),
        )


def _find_preset(options: Groups) -> str:
    return str(getattr(options["task"], "preset", "default"))


def _list_sizes(options: Options) -> set[str]:
    """Options that are the widths of an encoder's inputs, unless they are set."""
    return {item.name for item in fields(options) if item.metadata.get("of_inputs")}


# -- which options are open --------------------------------------------------------------------------------------------


def choose_encoder(task: type[Task], pretrained: str | None) -> str:
    """The name of the encoder if none was set."""
    return "pretrained" if pretrained else task.default_encoder
