"""The state of an estimator: its options, and what training made of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from typing_extensions import override

from graphattn.builders import TextGraphBuilder, Vocabulary
from graphattn.exceptions import ConfigError, DataError, NotFittedError
from graphattn.models._corpus import Corpus
from graphattn.models._encoders import EncoderOptions, encoder_options
from graphattn.models._estimators.inputs import as_list, check_weights
from graphattn.models._estimators.tasks.recipes import Recipe
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models._prediction import Predictions, predict_corpus
from graphattn.models.defaults import SET, Facts, Resolved, check_options, choose_encoder, resolve
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import Options, Parameters, ParsingOptions, option


@dataclass
class FileOptions(Options):
    """Corpora besides the training set."""

    init_from: str | None = option(
        None, "trained model to continue from, with its options; labels and words may be new", common=True
    )
    keep_from: str | None = option(
        None, "old examples, of which a sample is mixed in, so that less is forgotten (with init_from)"
    )
    keep_dev: str | None = option(
        None, "old examples, measured before and after, with a warning if they get worse (with init_from)"
    )
    dev: str | None = option(
        None, "dev set that chooses the best epoch (default: a tenth of the training set)", common=True
    )
    test: Sequence[str] | None = option(None, "test set, evaluated once at the end; may be repeated", common=True)


def preset_option(presets: Mapping[str, Recipe]) -> Any:
    """The option that chooses one of a task's presets."""
    help = "defaults for a good model, the settings of the papers, or those of a kind of corpus"
    return option("default", help, choices=presets, common=True)


@dataclass
class PresetOptions(Options):
    """Arguments of estimators besides their groups of options."""

    preset: str = preset_option(Task.presets)


def text_columns_option() -> Any:
    """The option of columns beside the texts."""
    help = "further columns of the table that are features beside the text: priority:category,amount:number"
    return option((), help, common=True)


def list_arguments(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, given its local variables before there are others."""
    return {name: value for name, value in variables.items() if name not in ("self", "__class__")}


class EstimatorState(Parameters):
    """Options, task, inputs and model of an estimator, before and after training.

    Functions that train, save, describe or export an estimator take one.
    """

    task: ClassVar[type[Task]]
    option_groups: ClassVar[Mapping[str, type[Options]]] = {
        "files": FileOptions,
        "task": Options,
        "inputs": InputOptions,
        "encoder": EncoderOptions,
        "head": HeadOptions,
        "training": TrainingOptions,
        "parsing": ParsingOptions,
        "pretrained": PretrainedOptions,
    }
    unused_options: ClassVar[frozenset[str]] = frozenset()
    late_options: ClassVar[frozenset[str]] = frozenset({"parsing"})
    encoder: str | EncoderOptions | None
    preset: str = "default"
    inputs: Any
    head: HeadOptions
    training: TrainingOptions
    parsing: ParsingOptions
    pretrained: PretrainedOptions
    warm_start: bool = False
    facts_: Facts
    encoder_: EncoderOptions
    inputs_: Any
    head_: HeadOptions
    training_: TrainingOptions
    pretrained_: PretrainedOptions
    text_inputs_: TextInputs
    model_: Any
    history_: list[dict[str, float]]
    was_stopped_: bool = False
    """Whether Ctrl-C ended the last training."""
    mixture_: dict[str, float]
    corpus_: Mapping[str, Any] = {}
    num_examples_: Mapping[str, int] = {}
    card_: str = ""
    notes_: Mapping[str, str] = {}
    """Further text files of a loaded model, such as ``train.yaml``, which :meth:`save` writes again."""
    _dev_results: tuple[Sequence[Any], list[Any]] | None = None
    """Labels and decisions for the dev set."""

    def __init__(self, encoder: str | EncoderOptions | None = None, **arguments: Any):
        self.encoder = encoder
        vars(self).update(arguments)
        for name, kind in self.argument_groups().items():
            value = arguments.get(name)
            setattr(self, name, kind() if value is None else value)
        pretrained = arguments.get("pretrained")
        self.pretrained = pretrained if isinstance(pretrained, PretrainedOptions) else PretrainedOptions(pretrained)

    # -- options -------------------------------------------------------------------------------------------------------

    @classmethod
    def argument_groups(cls) -> dict[str, type[Options]]:
        """The groups of options that are constructor arguments, without the encoder's."""
        return {name: kind for name, kind in cls.option_groups.items() if name not in ("files", "task", "encoder")}

    def resolve_options(self, facts: Facts | None = None, *, derive: bool = True) -> Resolved:
        """Group -> its options with all values; ``resolve_options().why("epochs")`` says what decided one.

        Parameters
        ----------
        facts : what is known of the training set; some options depend on it
        derive : whether to decide what depends on other options, too
        """
        for name, kind in self.argument_groups().items():
            if not isinstance(getattr(self, name), kind):
                actual = type(getattr(self, name)).__name__
                raise ConfigError(f"{name} of {type(self).__name__} is {actual}; give {kind.__name__}")
        groups = {"encoder": self.select_encoder(), **{name: getattr(self, name) for name in self.argument_groups()}}
        defaults = {item.name: item.default for item in fields(self.option_groups["task"])}
        set_arguments = {name: value for name, value in self._task_arguments().items() if value != defaults[name]}
        return resolve(self.task, {"task": self.option_groups["task"](**set_arguments), **groups}, facts, derive=derive)

    def validate(self) -> None:
        """Check all options.

        Raises
        ------
        ConfigError
            naming the option and a fix
        """
        check_options(self.task, self.resolve_options())

    def select_encoder(self) -> EncoderOptions:
        """The encoder's options as they were set."""
        default = choose_encoder(self.task, self.pretrained.pretrained)
        return encoder_options(default if self.encoder is None else self.encoder)

    def _task_arguments(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self.option_groups["task"])}

    def prepare(self, facts: Facts | None = None) -> None:
        """Resolve and check all options; make the task and its inputs.

        Parameters
        ----------
        facts : what is known before the training set is read
        """
        resolved = self.resolve_options(facts)
        check_options(self.task, resolved)
        if resolved["training"].minutes is not None and resolved.why("epochs") == SET:
            raise ConfigError("{minutes} decides {epochs}; leave one of them out", options=("minutes", "epochs"))
        self.resolved_ = resolved
        self._adopt(resolved, facts)

    def restore_options(self, saved: Mapping[str, Options], names: Mapping[str, Collection[str]]) -> None:
        """Check the options of a saved model, which have all values; make the task and its inputs.

        Parameters
        ----------
        saved : group -> its options
        names : group -> names of those that were set; ``resolved_`` finds the reasons of the others when it is read
        """
        check_options(self.task, saved)
        self._saved_options = saved, names
        self._adopt(saved, None)

    @cached_property
    def resolved_(self) -> Resolved:
        """Group -> its options with all values; ``resolved_.why("epochs")`` says what decided one."""
        saved, names = self._saved_options
        as_set = {group: options.keep(names.get(group, ())) for group, options in saved.items()}
        return resolve(self.task, as_set).restore(saved)

    def decide_options(self, **facts: Any) -> None:
        """Resolve the options that depend on the training set; ``facts`` are fields of ``Facts``."""
        self.facts_ = replace(self.facts_, **facts)
        self.resolved_ = self.resolve_options(self.facts_).reuse(self.resolved_)
        self._store_options(self.resolved_)

    def _adopt(self, options: Mapping[str, Options], facts: Facts | None) -> None:
        """Take options; forget an earlier model, and make the task and its inputs."""
        self._store_options(options)
        self.facts_ = Facts() if facts is None else facts
        self.mixture_, self.num_examples_, self.card_, self._dev_results = {}, {}, "", None
        self.notes_, self.was_stopped_ = {}, False
        self._fitted_task = self._make_task()
        inputs = self.text_inputs_ = self.task_.make_inputs(self.options_)
        inputs.texts_per_input, inputs.truncates = self.task.texts_per_input, self.task.truncates
        inputs.per_word = self.task.per_word

    def _store_options(self, options: Mapping[str, Options]) -> None:
        fitted = {f"{name}_": of_group for name, of_group in options.items() if name not in self.late_options}
        vars(self).update({name: of_group for name, of_group in fitted.items() if name != "task_"})

    def _make_task(self) -> Task:
        arguments = self._task_arguments()
        arguments.pop("preset", None)
        return self.task(**arguments)

    @property
    def task_(self) -> Task:
        """The fitted task, with the current values of what may change after training; before ``fit`` a new one."""
        task: Task = vars(self).get("_fitted_task") or self._make_task()
        task.update({name: getattr(self, name) for name in task.changeable})
        return task

    @property
    def options_(self) -> dict[str, Any]:
        """Group -> options of the fitted model, without the encoder's and those that may change."""
        return {name: getattr(self, f"{name}_") for name in self.argument_groups() if name not in self.late_options}

    def changed_options(self) -> dict[str, Any]:
        """Name -> value of the options of a fitted estimator that differ from the defaults; see ``resolved_``."""
        self._check_fitted()
        return self.resolved_.list_changes(self.unused_options)

    @override
    def set_params(self, **params: Any) -> Self:
        """Change parameters; the name of a pretrained model leaves the other options in ``pretrained`` as they are."""
        if "pretrained" in params and not isinstance(params["pretrained"], Options):
            params["pretrained__pretrained"] = params.pop("pretrained")
        return super().set_params(**params)

    @override
    def _get_nested(self, name: str) -> Any:
        if name == "encoder":
            self.encoder = self.select_encoder()
        return super()._get_nested(name)

    # -- fitted ----------------------------------------------------------------------------------------------------

    @property
    def encoder_name(self) -> str:
        """The encoder's name."""
        return self.encoder_.name

    def _check_fitted(self) -> None:
        """Raise an error before ``fit``."""
        if not hasattr(self, "model_"):
            raise make_not_fitted_error(
                f"this {type(self).__name__} is not trained yet; call fit, or graphattn.load a saved one"
            )

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words or subwords of the fitted model."""
        return self.text_inputs_.vocabulary

    @property
    def builder_(self) -> TextGraphBuilder:
        """Builds the graphs of the fitted model."""
        return self.text_inputs_.builder

    # -- texts ---------------------------------------------------------------------------------------------------------

    def read_texts(self, X: Iterable[Any]) -> Texts:
        """Inputs as texts, without HTML if the options say so."""
        return Texts.of(X, self.task_, strip_html=self.inputs_.strip_html)

    def read_examples(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None,
        *,
        empty: str,
        where: str,
        hint: str | None = None,
        sample_weight: Any = None,
    ) -> Texts:
        """Inputs as texts with labels; ``empty`` is the error if there are none, ``where`` what errors call them."""
        task = self.task_
        task.known_columns.require_labels(X, y)
        X = as_list(X, task)
        if not X:
            raise DataError(empty, hint=hint)
        texts, labels = self.read_texts(X), task.labels.resolve(X, y)
        return replace(texts, labels=labels, weights=check_weights(sample_weight, len(labels)), where=where)

    def encode_texts(self, texts: Texts) -> Corpus:
        """Texts as the model reads them, with targets if they have labels."""
        return self.text_inputs_.encode(texts, self.task_.labels.make_targets, self.parsing)

    def rerun(self, texts: Texts, **options: Any) -> Predictions:
        """Decisions for texts, whatever their labels, and what options of ``predict_corpus`` ask for."""
        return predict_corpus(self.model_, self.encode_texts(texts.unlabelled()), **options)

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def main_metric(self) -> str:
        """The metric of :meth:`score`, which chooses the best epoch unless ``training.metric`` names another."""
        return self.task_.labels.main_metric

    def best_epoch(self) -> dict[str, float]:
        """The history's row of the epoch that was kept: the last one with the best dev metric; 0: the linear model."""
        metric = f"dev_{self.training_.metric or self.main_metric}"
        if metric not in self.history_[-1]:  # no dev set
            return self.history_[-1]
        return max(reversed(self.history_), key=lambda row: row[metric])

    def dev_metrics(self) -> dict[str, float]:
        """Metrics of the model on the dev set; empty without one."""
        kept = {name: value for name, value in self.best_epoch().items() if name.startswith("dev_")}
        return {name.removeprefix("dev_"): self.mixture_.get(name, value) for name, value in kept.items()}


def make_corpus(estimator: EstimatorState, X: Iterable[Any], y: Iterable[Any] | None = None) -> Corpus:
    """Inputs as a fitted model reads them, with targets if there are labels."""
    task = estimator.task_
    X = as_list(X, task)
    texts = estimator.read_texts(X)
    return estimator.encode_texts(texts if y is None else replace(texts, labels=task.labels.resolve(X, y)))


def make_not_fitted_error(message: str) -> NotFittedError:
    """Make an error that scikit-learn's tools recognise as theirs."""
    from sklearn.exceptions import NotFittedError as OfScikitLearn  # takes long to import

    class Joint(NotFittedError, OfScikitLearn):  # type: ignore[misc]
        @override
        def __reduce__(self) -> tuple[Any, ...]:
            return make_not_fitted_error, (message,)

    Joint.__name__ = Joint.__qualname__ = NotFittedError.__name__
    return Joint(message)
