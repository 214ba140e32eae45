"""Relations by name, as written on the command line, in YAML files and in a model's options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from graphattn._schema import BACKWARD, DEPENDENCY, FORWARD, TOKEN, WORD
from graphattn._validation import suggest
from graphattn.builders.relations._base import COMPOSITIONS, Relation
from graphattn.builders.relations._binary_partition import BinaryPartition
from graphattn.builders.relations._composition import Intersection, Union
from graphattn.builders.relations._dependency import Dependency
from graphattn.builders.relations._links import Links
from graphattn.builders.relations._nearest import Nearest
from graphattn.builders.relations._random_edges import Random, RandomArcs, RandomPairs, ShuffledGroup
from graphattn.builders.relations._ranges import Causal, Complete, Global, Order
from graphattn.builders.relations._relative_positions import RelativePositions
from graphattn.builders.relations._sentence_nodes import DocumentTree, SentenceNodes
from graphattn.builders.relations._star import Star
from graphattn.builders.relations._window import Dilated, Window
from graphattn.builders.relations._word_group import Membership, WordGroup
from graphattn.exceptions import ConfigError, UnregisteredError

_SIGNS = re.compile(r"[|&()]|[^|&()]+")


@dataclass(frozen=True)
class RelationName:
    """Notation of a relation."""

    usage: str  # name and parameters, optional ones in brackets
    pattern: str  # regular expression of the parameters, each a group
    make: Callable[..., Relation]  # the texts of the parameters, None if left out -> the relation
    origin: str = ""  # module and name of a user's ``make``


_COUNT = r"(\d{1,9})"
_OPTIONAL_COUNT = rf"(?::{_COUNT})?"
_SEED = r"(?::(\d{1,18}))?"
_NODES = r"(?::(token|word))?"

_BUILT_IN = MappingProxyType(
    {
        "window": RelationName("window:SCALE", r":(.+)", Window),
        "radius": RelationName("radius:SCALE", r":(.+)", lambda scale: Window(scale, as_radius=True)),
        "dilated": RelationName("dilated:SCALE:GAP", rf":(.+):{_COUNT}", lambda scale, gap: Dilated(scale, int(gap))),
        "global": RelationName("global[:COUNT]", _OPTIONAL_COUNT, lambda count: Global(int(count or 1))),
        "random": RelationName(
            "random:COUNT[:SEED]", rf":{_COUNT}{_SEED}", lambda count, seed: Random(int(count), int(seed or 0))
        ),
        "group": RelationName("group", "", WordGroup),
        "shuffled-group": RelationName("shuffled-group[:SEED]", _SEED, lambda seed: ShuffledGroup(int(seed or 0))),
        "random-pairs": RelationName("random-pairs[:SEED]", _SEED, lambda seed: RandomPairs(int(seed or 0))),
        "random-arcs": RelationName("random-arcs[:SEED]", _SEED, lambda seed: RandomArcs(int(seed or 0))),
        "dependency": RelationName("dependency[:token|:word]", _NODES, Dependency),
        "in": RelationName("in", "", Membership),
        "forward": RelationName("forward", "", lambda: Order(FORWARD)),
        "backward": RelationName("backward", "", lambda: Order(BACKWARD)),
        "all": RelationName("all[:token|:word]", _NODES, lambda nodes: Complete(nodes or TOKEN)),
        "causal": RelationName(
            "causal[:WIDTH]", _OPTIONAL_COUNT, lambda width: Causal(None if width is None else int(width))
        ),
        "star": RelationName("star", "", Star),
        "binary": RelationName("binary[:COUNT]", _OPTIONAL_COUNT, lambda count: BinaryPartition(int(count or 1))),
        "sentence": RelationName("sentence", "", SentenceNodes),
        "document": RelationName("document", "", DocumentTree),
        "nearest": RelationName("nearest:COUNT", rf":{_COUNT}", lambda count: Nearest(int(count))),
        "links": RelationName("links[:token|:word]", _NODES, lambda nodes: Links(nodes or TOKEN)),
    }
)
RELATION_NAMES: dict[str, RelationName] = dict(_BUILT_IN)
"""Name -> how it is written. :func:`register_relation` adds to it."""

_USAGE = re.compile(r"([a-z][a-z0-9-]*)((?::[A-Z][A-Z0-9_]*)*)((?:\[:[A-Z][A-Z0-9_]*\])*)")
_MAX_DEPTH = 100
"""Nested brackets; each takes some of Python's stack."""
_FUNCTIONS = ("reverse", "within-words", "relative")


def register_relation(usage: str, make: Callable[..., Relation]) -> None:
    """Name a relation of your own, for the command line, YAML files, encoder options and stores.

    A program that loads such a model or opens such a store must register the relation first; on the command line use
    ``graphattn --import MODULE``.

    Parameters
    ----------
    usage : its name, then its parameters in capitals, optional ones in brackets: ``clause``, ``every:STEP[:FIRST]``
    make : the texts of the given parameters -> the relation; a class without parameters will do. The relation's
        ``name`` must be what users write, parameters included

    Raises
    ------
    ConfigError
        if the usage cannot be read, or the name is built in or registered by another function

    Examples
    --------
    >>> import numpy as np
    >>> from graphattn.builders import RangeRelation
    >>> class Every(RangeRelation):
    ...     def __init__(self, step):
    ...         self.step, self.name = step, f"every:{step}"
    ...     def bounds(self, layout):
    ...         tokens = np.arange(layout.num_tokens)
    ...         return tokens, tokens + (layout.positions % self.step == 0)
    >>> register_relation("every:STEP", lambda step: Every(int(step)))
    >>> parse_relation("every:2 | window:3").name
    'every:2|window:3'
    >>> del RELATION_NAMES["every"]  # other examples do not have it
    """
    parts = _USAGE.fullmatch(usage)
    if parts is None:
        raise ConfigError(
            f"cannot register relation {usage!r}; write name, name:PARAMETER or name[:PARAMETER], with the name in "
            "lower case, digits and hyphens"
        )
    name, required, optional = parts.groups()
    origin = _qualify_name(make)
    if name in _BUILT_IN or name in _FUNCTIONS:
        raise ConfigError(f"relation {name!r} is built in; choose another name")
    if name in RELATION_NAMES and origin != RELATION_NAMES[name].origin:
        raise ConfigError(
            f"relation {name!r} is registered by {RELATION_NAMES[name].origin}; register {origin} under another name"
        )
    pattern = ":([^:]+)" * required.count(":") + "(?::([^:]+))?" * optional.count(":")

    def make_checked(*parameters: str | None) -> Relation:
        try:
            relation = make(*(text for text in parameters if text is not None))
            spec = relation.spec
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"{origin} fails with {type(error).__name__}: {error}") from error
        if re.fullmatch(name + pattern, spec) is None:
            raise ConfigError(f"{origin}, registered as {usage}, made a relation named {spec!r}")
        return relation

    RELATION_NAMES[name] = RelationName(usage, pattern, make_checked, origin)


def parse_relation(text: str, *, on: str = WORD, required: bool = True) -> Relation:
    """Make the relation that a text names.

    ``a|b`` is a union, ``a&b`` an intersection, which binds closer; ``reverse(a)`` swaps sources and targets,
    ``within-words(a)`` keeps edges inside a word, ``relative:4(a)`` adds relative positions; brackets group.

    Parameters
    ----------
    text : such as ``window:N/16`` or ``window:3|global:1``; the ``spec`` of any relation of the library
    on : the nodes of plain ``dependency``, ``"word"`` or ``"token"``
    required : whether sentences must have heads for ``dependency``

    Raises
    ------
    UnregisteredError
        if there is no such relation
    ConfigError
        if a parameter is out of bounds, or the text cannot be read

    Examples
    --------
    >>> parse_relation("window:3 | random:2")
    Union(Window('3'), Random(2))
    >>> parse_relation("reverse(forward) & (window:9 | global)").name
    'reverse(forward)&(window:9|global:1)'
    """
    return _RelationParser(text, on, required=required).parse()


def split_heads(relations: str | Iterable[str] | Mapping[str, object]) -> list[tuple[str, object]]:
    """Split ``window:3=4,dependency`` into relations and their numbers of heads.

    Parameters
    ----------
    relations : separated by commas, a list, or relation -> number

    Returns
    -------
    Pairs of a relation and its number, as a text if it is part of one; None where there is no number

    Examples
    --------
    >>> split_heads("window:3=4, dependency")
    [('window:3', '4'), ('dependency', None)]
    """
    if isinstance(relations, Mapping):
        return [(str(name), count) for name, count in relations.items()]
    texts = [relations] if isinstance(relations, str) else relations
    parts = [part.strip().rpartition("=") for text in texts for part in str(text).split(",")]
    return [(name.strip(), count.strip()) if sign else (count, None) for name, sign, count in parts]


def parse_relations(relations: str | Iterable[str]) -> list[Relation]:
    """Make the relations that a text names, separated by commas; numbers of heads are ignored.

    Examples
    --------
    >>> parse_relations("window:3=4,star")
    [Window('3'), Star()]
    """
    return [parse_relation(name) for name, _ in split_heads(relations)]


def _qualify_name(make: Callable[..., Relation]) -> str:
    return f"{getattr(make, '__module__', None)}.{getattr(make, '__qualname__', type(make).__qualname__)}"


class _RelationParser:
    """Recursive descent: union, intersection, then a name or brackets."""

    def __init__(self, text: str, on: str, *, required: bool):
        self.text, self.on, self.required = text, on, required
        self.signs: list[str] = [sign.strip() for sign in _SIGNS.findall(text) if sign.strip()]
        self.at = self.depth = 0

    def parse(self) -> Relation:
        relation = self.parse_union()
        if self.at < len(self.signs):
            raise self.error(f"unexpected {self.signs[self.at]!r}")
        return relation

    def parse_union(self) -> Relation:
        operands = [self.parse_intersection()]
        while self.skip("|"):
            operands.append(self.parse_intersection())
        return operands[0] if len(operands) == 1 else Union(*operands)

    def parse_intersection(self) -> Relation:
        operands = [self.parse_single()]
        while self.skip("&"):
            operands.append(self.parse_single())
        return operands[0] if len(operands) == 1 else Intersection(*operands)

    def parse_single(self) -> Relation:
        name = "" if self.skip("(") else self.read_name()
        if name and not self.skip("("):
            return self.make_relation(name)
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ConfigError(f"relation {self.text[:40]!r}... has more than {_MAX_DEPTH} nested brackets")
        inner = self.parse_union()
        if not self.skip(")"):
            raise self.error("a bracket is not closed")
        self.depth -= 1
        return self.apply(name, inner)

    def read_name(self) -> str:
        if self.at == len(self.signs) or self.signs[self.at] in "|&()":
            raise self.error("a name is missing")
        self.at += 1
        return self.signs[self.at - 1]

    def skip(self, sign: str) -> bool:
        is_next = self.at < len(self.signs) and self.signs[self.at] == sign
        self.at += is_next
        return is_next

    def make_relation(self, text: str) -> Relation:
        name = text.partition(":")[0]
        known = RELATION_NAMES.get(name)
        if known is None:
            usages = ", ".join(entry.usage for entry in RELATION_NAMES.values())
            raise UnregisteredError(
                f"there is no relation {text!r}; {suggest(name, RELATION_NAMES)}choose from: {usages}; or add your "
                "own with register_relation (on the command line with --import)",
                text,
            )
        parameters = re.fullmatch(known.pattern, text.removeprefix(name))
        if parameters is None:
            raise ConfigError(f"relation {text!r} is written as {known.usage}")
        if name == DEPENDENCY:
            return Dependency(parameters[1] or self.on, required=self.required)
        try:
            return known.make(*parameters.groups())
        except ConfigError as error:
            raise ConfigError(f"relation {text!r}: {error}") from error

    def apply(self, function: str, relation: Relation) -> Relation:
        relative = re.fullmatch(rf"relative:{_COUNT}", function)
        if not function:
            return relation
        if function == "reverse":
            return relation.reverse()
        if function == "within-words":
            return relation.within_words()
        if relative:
            try:
                return RelativePositions(relation, int(relative[1]))
            except ConfigError as error:
                raise self.error(str(error)) from error
        names = suggest(function.partition(":")[0], _FUNCTIONS)
        raise self.error(
            f"unknown function {function!r}; {names}choose reverse(...), within-words(...) or relative:CLIP(...)"
        )

    def error(self, problem: str) -> ConfigError:
        return ConfigError(f"relation {self.text!r}: {problem}")


COMPOSITIONS["name"] = parse_relation
