"""Relations by their names: what users write on command lines, in YAML files and in a model's options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from graphattn.builders.relations.base import Relation
from graphattn.builders.relations.binary_partition import BinaryPartition
from graphattn.builders.relations.complete import Complete
from graphattn.builders.relations.composition import Intersection, Union
from graphattn.builders.relations.dependency import Dependency
from graphattn.builders.relations.dilated import Dilated
from graphattn.builders.relations.global_tokens import Global
from graphattn.builders.relations.links import Links
from graphattn.builders.relations.membership import Membership
from graphattn.builders.relations.nearest import Nearest
from graphattn.builders.relations.order import Order
from graphattn.builders.relations.random_arcs import RandomArcs
from graphattn.builders.relations.random_pairs import RandomPairs
from graphattn.builders.relations.random_tokens import Random
from graphattn.builders.relations.relative_positions import RelativePositions
from graphattn.builders.relations.sentence_nodes import DocumentTree, SentenceNodes
from graphattn.builders.relations.shuffled_group import ShuffledGroup
from graphattn.builders.relations.star import Star
from graphattn.builders.relations.window import Window
from graphattn.builders.relations.word_group import WordGroup
from graphattn.exceptions import ConfigError, UnregisteredError
from graphattn.schema import BACKWARD, FORWARD, TOKEN, WORD

_SIGNS = re.compile(r"[|&()]|[^|&()]+")


@dataclass(frozen=True)
class RelationName:
    """How a relation is written.

    Parameters
    ----------
    usage : its name and parameters, those in brackets optional
    pattern : of the parameters, each a group
    make : what :func:`parse_relation` was given and the parameters' texts -> the relation
    place : module and name of what a user registered
    """

    usage: str
    pattern: str
    make: Callable[..., Relation]
    place: str = ""


_COUNT = r"(\d{1,9})"
_SEED = r"(?::(\d{1,18}))?"

_OF_THE_PACKAGE = MappingProxyType(
    {
        "window": RelationName("window:SCALE", r":(.+)", lambda given, scale: Window(scale)),
        "radius": RelationName("radius:SCALE", r":(.+)", lambda given, scale: Window(scale, as_radius=True)),
        "dilated": RelationName(
            "dilated:SCALE:GAP", rf":(.+):{_COUNT}", lambda given, scale, gap: Dilated(scale, int(gap))
        ),
        "global": RelationName("global[:COUNT]", rf"(?::{_COUNT})?", lambda given, count: Global(int(count or 1))),
        "random": RelationName(
            "random:COUNT[:SEED]",
            rf":{_COUNT}{_SEED}",
            lambda given, count, seed: Random(int(count), int(seed or 0)),
        ),
        "group": RelationName("group", "", lambda given: WordGroup()),
        "shuffled-group": RelationName(
            "shuffled-group[:SEED]", _SEED, lambda given, seed: ShuffledGroup(int(seed or 0))
        ),
        "random-pairs": RelationName("random-pairs[:SEED]", _SEED, lambda given, seed: RandomPairs(int(seed or 0))),
        "random-arcs": RelationName("random-arcs[:SEED]", _SEED, lambda given, seed: RandomArcs(int(seed or 0))),
        "dependency": RelationName(
            "dependency[:token|:word]",
            r"(?::(token|word))?",
            lambda given, nodes: Dependency(nodes or given.on, required=given.required),
        ),
        "in": RelationName("in", "", lambda given: Membership()),
        "forward": RelationName("forward", "", lambda given: Order(FORWARD)),
        "backward": RelationName("backward", "", lambda given: Order(BACKWARD)),
        "all": RelationName("all[:token|:word]", r"(?::(token|word))?", lambda given, nodes: Complete(nodes or TOKEN)),
        "star": RelationName("star", "", lambda given: Star()),
        "binary": RelationName(
            "binary[:COUNT]", rf"(?::{_COUNT})?", lambda given, count: BinaryPartition(int(count or 1))
        ),
        "sentence": RelationName("sentence", "", lambda given: SentenceNodes()),
        "document": RelationName("document", "", lambda given: DocumentTree()),
        "nearest": RelationName("nearest:COUNT", rf":{_COUNT}", lambda given, count: Nearest(int(count))),
        "links": RelationName("links[:token|:word]", r"(?::(token|word))?", lambda given, nodes: Links(nodes or TOKEN)),
    }
)
_REGISTERED: dict[str, RelationName] = dict(_OF_THE_PACKAGE)
RELATION_NAMES: Mapping[str, RelationName] = MappingProxyType(_REGISTERED)
"""Name -> how it is written; composed relations are made of these. :func:`register_relation` adds to them."""

_USAGE = re.compile(r"([a-z][a-z0-9-]*)((?::[A-Z][A-Z0-9_]*)*)((?:\[:[A-Z][A-Z0-9_]*\])*)")
_DEEPEST = 100
"""Brackets within each other; each takes some of Python's stack."""
_FUNCTIONS = ("reverse", "within-words", "relative")


def register_relation(usage: str, make: Callable[..., Relation]) -> None:
    """Let a relation of your own be named: on the command line, in YAML files, in an encoder's options, in stores.

    A program that loads such a model or opens such a store must register the relation first; the command line does
    with ``graphattn --import MODULE``.

    Parameters
    ----------
    usage : its name, then its parameters in capitals, those in brackets optional: ``clause``, ``every:STEP[:FIRST]``
    make : the texts of the parameters that are given -> the relation; a class without parameters does as it is. The
        relation's own ``name`` must be what a user writes, parameters included

    Raises
    ------
    ConfigError
        for a usage that cannot be read, something that makes nothing, or a name that is taken: by a relation of the
        package, or by what another place has registered (the same place may do so again)

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
    """
    read = _USAGE.fullmatch(usage)
    if read is None:
        raise ConfigError(
            f"relation {usage!r} cannot be registered; write it as name, name:PARAMETER or name[:PARAMETER], the name "
            "in small letters, digits and hyphens, parameters in capitals"
        )
    name, given, optional = read.groups()
    if name in _OF_THE_PACKAGE or name in _FUNCTIONS:
        raise ConfigError(f"relation {name!r} is the package's; register yours under another name")
    if not callable(make):
        raise ConfigError(f"relation {name!r}: {make!r} makes no relations; give a class or a function")
    if name in _REGISTERED and _place(make) != _REGISTERED[name].place:
        raise ConfigError(
            f"relation {name!r} is registered already, by {_REGISTERED[name].place}; register {_place(make)} under "
            "another name"
        )
    pattern = ":([^:]+)" * given.count(":") + "(?::([^:]+))?" * optional.count(":")

    def made(parser: _Parser, *parameters: str | None) -> Relation:
        try:
            relation = make(*(text for text in parameters if text is not None))
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"{_place(make)} fails with {type(error).__name__}: {error}") from error
        written = getattr(relation, "spec", None) if isinstance(relation, Relation) else None
        if written is None or re.fullmatch(name + pattern, written) is None:
            raise ConfigError(f"what is registered as {usage} made {relation!r}, whose name is {written!r}")
        return relation

    _REGISTERED[name] = RelationName(usage, pattern, made, _place(make))


def _place(make: Callable[..., Relation]) -> str:
    """Where something that makes relations is written."""
    return f"{getattr(make, '__module__', None)}.{getattr(make, '__qualname__', type(make).__qualname__)}"


def parse_relation(text: str, *, on: str = WORD, required: bool = True) -> Relation:
    """The relation that a name stands for.

    ``a|b`` is a union, ``a&b`` an intersection, which binds closer; ``reverse(a)`` leads the other way,
    ``within-words(a)`` keeps what lies inside a word, ``relative:4(a)`` adds relative positions; brackets group.

    Parameters
    ----------
    text : such as ``window:N/16`` or ``window:3|global:1``; what any relation of the package has as ``spec``
    on : what plain ``dependency`` joins, ``"word"`` or ``"token"``
    required : whether a sentence must have heads for ``dependency``

    Raises
    ------
    UnregisteredError
        when there is no such relation
    ConfigError
        when it is impossible, or the text cannot be read

    Examples
    --------
    >>> parse_relation("window:3 | random:2")
    Union(Window('3'), Random(2))
    >>> parse_relation("reverse(forward) & (window:9 | global)").name
    'reverse(forward)&(window:9|global:1)'
    """
    return _Parser(text, on, required=required).whole()


class _Parser:
    """Reads a text from left to right, one sign after the other."""

    def __init__(self, text: str, on: str, *, required: bool):
        self.text, self.on, self.required = text, on, required
        self.signs = [sign.strip() for sign in _SIGNS.findall(text) if sign.strip()]
        self.at = self.depth = 0

    def whole(self) -> Relation:
        relation = self.union()
        if self.at < len(self.signs):
            raise self.error(f"{self.signs[self.at]!r} is not expected")
        return relation

    def union(self) -> Relation:
        operands = [self.intersection()]
        while self.skip("|"):
            operands.append(self.intersection())
        return operands[0] if len(operands) == 1 else Union(*operands)

    def intersection(self) -> Relation:
        operands = [self.single()]
        while self.skip("&"):
            operands.append(self.single())
        return operands[0] if len(operands) == 1 else Intersection(*operands)

    def single(self) -> Relation:
        name = "" if self.skip("(") else self.name()
        if name and not self.skip("("):
            return self.named(name)
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ConfigError(f"relation {self.text[:40]!r}... has more than {_DEEPEST} brackets within each other")
        inner = self.union()
        if not self.skip(")"):
            raise self.error("a bracket is not closed")
        self.depth -= 1
        return self.function(name, inner)

    def name(self) -> str:
        if self.at == len(self.signs) or self.signs[self.at] in "|&()":
            raise self.error("a name is missing")
        self.at += 1
        return self.signs[self.at - 1]

    def skip(self, sign: str) -> bool:
        found = self.at < len(self.signs) and self.signs[self.at] == sign
        self.at += found
        return found

    def named(self, name: str) -> Relation:
        plain = name.partition(":")[0]
        known = RELATION_NAMES.get(plain)
        if known is None:
            usages = ", ".join(entry.usage for entry in RELATION_NAMES.values())
            raise UnregisteredError(
                f"there is no relation {name!r}; choose from: {usages}; or register_relation one of your own (on the "
                "command line with --import)",
                name,
            )
        found = re.fullmatch(known.pattern, name.removeprefix(plain))
        if found is None:
            raise ConfigError(f"relation {name!r} is written as {known.usage}")
        try:
            return known.make(self, *found.groups())
        except ConfigError as error:
            raise ConfigError(f"relation {name!r}: {error}") from error

    def function(self, name: str, inner: Relation) -> Relation:
        relative = re.fullmatch(rf"relative:{_COUNT}", name)
        if not name:
            return inner
        if name == "reverse":
            return inner.reverse()
        if name == "within-words":
            return inner.within_words()
        if relative:
            return RelativePositions(inner, int(relative[1]))
        raise self.error(
            f"there is no {name!r} of a relation; choose from: reverse(...), within-words(...), relative:CLIP(...)"
        )

    def error(self, problem: str) -> ConfigError:
        return ConfigError(f"relation {self.text!r}: {problem}")
