"""One prediction with its attention weights, as a table, graph or matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import networkx as nx
import numpy as np
import numpy.typing as npt
import pandas as pd

from graphattn._networkx_graphs import CLS, EdgeRows, GraphColumns, make_networkx
from graphattn._ragged import Ints
from graphattn._schema import TOKEN, WORD
from graphattn._validation import require_range, suggest
from graphattn.builders._sentence import Sentence
from graphattn.builders._subwords import join_pieces
from graphattn.builders.relations import parse_relation
from graphattn.builders.relations._names import split_heads
from graphattn.exceptions import ConfigError
from graphattn.models.inspection import limits
from graphattn.models.inspection._attention_map import AttentionMap, Floats
from graphattn.models.inspection._branch_scores import BranchScores
from graphattn.models.inspection._capture import part_name
from graphattn.models.inspection._edge_kinds import EdgeKinds, is_dependency, word_ids_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array


GROUPS = ("layer", "head", "relation", "source_part", "target_part")


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """The data of an :class:`Attention`, and what selects from it."""

    title: str = field(repr=False)
    prediction: Any
    probabilities: Mapping[Any, float] | Sequence[Mapping[Any, float]] = field(repr=False)
    tokens: Mapping[str, tuple[str, ...]]
    sentences: Mapping[str, Sentence] = field(repr=False)
    maps: tuple[AttentionMap, ...] = field(repr=False)
    branches: BranchScores | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for text, sentence in self.sentences.items():
            if text not in self.tokens:
                raise ConfigError(
                    f"{{sentences}} has {text!r}, which {{tokens}} has not", options=("sentences", "tokens")
                )
            count = len(self.tokens[text])
            if not len(sentence) <= count <= len(sentence) + 1:
                raise ConfigError(
                    f"the sentence of part {text!r} has {len(sentence)} tokens, {{tokens}} has {count}; expected as "
                    "many, or one more for [CLS]",
                    options=("sentences", "tokens"),
                )
        for number, single in enumerate(self.maps):
            for end in ("source", "target"):
                part, positions = getattr(single, f"{end}_part"), getattr(single, f"{end}s")
                if part not in self.tokens:
                    parts = ", ".join(map(repr, self.tokens))
                    raise ConfigError(
                        f"{{maps}}[{number}].{end}_part is {part!r}; tokens has {parts}", options=("maps",)
                    )
                count = len(self.tokens[part])
                if len(positions) and not 0 <= positions.min() <= positions.max() < count:
                    wrong = positions[(positions < 0) | (positions >= count)][0]
                    raise ConfigError(
                        f"{{maps}}[{number}].{end}s has position {wrong}; part {part!r} has {count} tokens, counted "
                        "from 0",
                        options=("maps",),
                    )

    def only(self, *, layer: int | None = None, head: int | None = None, relation: str | None = None) -> Self:
        """Select weights.

        Parameters
        ----------
        layer, head, relation : what to keep; None keeps all

        Raises
        ------
        ConfigError
            when there is no such layer, head or relation
        """
        maps = self._of_layer(layer)
        if relation is not None:
            relation = self._find_relation(relation)
        if head is not None:
            maps = _of_head(maps, head)
        selected = tuple(each for each in maps if relation in (None, each.relation))
        if not selected:
            subject = "no head" if head is None else f"not head {head}"
            where = "" if layer is None else f" in layer {layer}"
            raise ConfigError(f"{{relation}} is {relation!r}, which {subject} uses{where}", options=("relation",))
        return replace(self, maps=selected)

    def _find_relation(self, relation: str) -> str:
        """The relation's name in the maps: ``binary=2`` is ``binary:1``."""
        known = list(dict.fromkeys(each.relation for each in self.maps))
        name = split_heads(relation)[0][0]
        if name not in known:
            with suppress(ConfigError):
                name = parse_relation(name, on=TOKEN).name
        if name not in known:
            hint = f"{suggest(name, known)}the heads use"
            raise ConfigError(f"{{relation}} is {relation!r}; {hint}: {', '.join(known)}", options=("relation",))
        return name

    def _of_layer(self, layer: int | None) -> list[AttentionMap]:
        layers = sorted({each.layer for each in self.maps})
        if not layers:
            raise ConfigError("there are no weights: {maps} is empty", options=("maps",))
        if layer is not None and layer not in layers:
            raise ConfigError(f"{{layer}} is {layer!r}; layers count from 0 to {layers[-1]}", options=("layer",))
        return [each for each in self.maps if layer in (None, each.layer)]

    def table(self) -> pd.DataFrame:
        """One row per weight, sorted by layer, head and target.

        Returns
        -------
        Columns layer, head (use ``table["head"]``; ``table.head`` is a pandas method), relation, scale, source, target
        (positions), source_token, target_token, source_word, target_word, source_word_index, target_word_index, weight;
        with several parts also source_part and target_part; of a parsed text also deprel, see :meth:`deprels`. The word
        of a token is the whole word; words count from 0 in their part, as positions do, with ``[CLS]``. Nodes that are
        not tokens are shown as ``[relay 0]``.

        Raises
        ------
        ConfigError
            when there are more weights than :data:`graphattn.models.inspection.limits.MOST_ROWS`
        """
        limits.check_size("table", self.num_weights, limits.MOST_ROWS)
        return self._rows(self.only()._by_head())

    @property
    def num_weights(self) -> int:
        """Number of weights over all layers and heads."""
        return sum(each.weights.size for each in self.maps)

    def weights(self) -> Floats:
        """(rows,) weights in the order of :meth:`table`."""
        return np.concatenate([part.weights[:, 0] for part in self._by_head()])

    def graph(self, layer: int | None = None, head: int | None = None) -> nx.MultiDiGraph:
        """The edges of one head, or of all heads, as a networkx graph.

        Nodes are named ``text_3``, by part and position, with leading zeros, and have the attributes ``part``,
        ``index``, ``text``, ``word`` and ``label``. Edges lead to the target that attends, with the attributes
        ``layer``, ``head``, ``relation`` and ``weight``, in a parsed text also ``deprel``; they are numbered over all
        heads, by layer and head.

        Raises
        ------
        ConfigError
            when there is no such layer or head, or more edges than
            :data:`graphattn.models.inspection.limits.MOST_LINKS`
        """
        selected = self.only(layer=layer, head=head)
        limits.check_size("networkx graph", selected.num_weights, limits.MOST_LINKS)
        nodes: dict[str, GraphColumns] = {
            part: {
                "part": [part] * len(texts),
                "index": list(range(len(texts))),
                "text": list(map(str, texts)),
                "word": list(map(str, self.words[part])),
            }
            for part, texts in self.tokens.items()
        }
        edges = []
        for single in selected._by_head():
            size = len(single.sources)
            columns: GraphColumns = {
                "layer": [single.layer] * size,
                "head": [single.first_head] * size,
                "relation": [single.relation] * size,
                "weight": single.weights[:, 0].tolist(),
            }
            if self.has_parse:
                columns["deprel"] = selected.deprels(single).tolist()
            ends = single.sources.tolist(), single.targets.tolist()
            edges.append(EdgeRows(single.source_part, single.target_part, *ends, columns))
        return make_networkx(nodes, edges)

    def matrix(self, layer: int, head: int) -> csr_array:
        """The weights of one head as a sparse matrix: rows are targets, columns sources.

        Parts follow each other in the order of ``tokens``: the matrix of a pair has two blocks.

        Raises
        ------
        ConfigError
            when there is no such layer or head
        """
        from scipy.sparse import coo_array

        first, size = self._offsets
        selected = self.only(layer=layer, head=head)._by_head()
        rows = np.concatenate([single.targets + first[single.target_part] for single in selected])
        columns = np.concatenate([single.sources + first[single.source_part] for single in selected])
        weights = np.concatenate([single.weights[:, 0] for single in selected])
        return coo_array((weights, (rows, columns)), shape=(size, size)).tocsr()

    def features(self, layer: int, head: int) -> Floats:
        """(E, F) weights by feature of one head (MTSA), in the order of :meth:`table`.

        Raises
        ------
        ConfigError
            when there is no such layer or head, or it has no weights by feature
        """
        selected = self.only(layer=layer, head=head)._by_head()
        if any(single.features is None for single in selected):
            raise ConfigError(
                "there are no weights by feature; request them with attention(x, features=True) from a model with the "
                "encoder mtsa"
            )
        return np.concatenate([single.features[:, 0] for single in selected if single.features is not None])

    def deprels(self, single: AttentionMap, edges: Any = slice(None)) -> npt.NDArray[np.object_]:
        """The dependency relation of edges of a map: ``nsubj>`` to the head, ``nsubj<`` from it; else an empty string.

        Parameters
        ----------
        single : one of :attr:`maps`
        edges : indices of its edges; all of them by default
        """
        sources, targets = single.sources[edges], single.targets[edges]
        kinds, ends = self.edge_kinds.get(single.source_part, (None, ""))
        if kinds is None or single.source_part != single.target_part:
            return np.full(len(sources), "", dtype=object)
        names = [name if is_dependency(name) else "" for name in kinds.names]
        return np.array(names, dtype=object)[kinds.codes(sources, targets, ends)]

    def top(self, k: int = 10, *, by: str | Sequence[str] = ()) -> pd.DataFrame:
        """The strongest edges, as rows of :meth:`table`.

        A target's only edge always has weight one; such edges are omitted.

        Parameters
        ----------
        k : number of edges
        by : columns (layer, head, relation, source_part, target_part); each combination of values gets ``k`` edges

        Raises
        ------
        ConfigError
            when ``k`` is below 1, or there is no such column
        """
        columns = [by] if isinstance(by, str) else list(by)
        require_range("k", k, min=1)
        unknown = next((name for name in columns if name not in GROUPS), None)
        if unknown is not None:
            raise ConfigError(f"{{by}} is {unknown!r}; choose from: {', '.join(GROUPS)}", options=("by",))
        degrees, heads, edges = self._degrees(), self._by_head(), []
        for single in heads:
            candidates = (degrees[_softmax_key(single)] > 1)[single.targets].nonzero()[0]
            edges.append(candidates[np.argsort(-single.weights[candidates, 0], kind="stable")[:k]])
        rows = self._rows(heads, edges).sort_values("weight", ascending=False, kind="stable")
        columns = [name for name in columns if name in rows]
        if not columns:
            return rows.head(k).reset_index(drop=True)
        rows = rows.groupby(columns, sort=True).head(k).sort_values(columns, kind="stable")
        return rows.reset_index(drop=True)

    def single_edge_heads(self) -> dict[tuple[int, int], str]:
        """Layer and head -> relation, of heads without a choice: no node has a second edge, so all weights are one."""
        most: dict[tuple[int, int], int] = {}
        for (layer, head, _), degrees in self._degrees().items():
            most[layer, head] = max(most.get((layer, head), 0), int(degrees.max(initial=0)))
        relations = {(single.layer, single.first_head): single.relation for single in self._by_head()}
        return {key: relations[key] for key, degree in most.items() if degree <= 1}

    def _by_head(self) -> list[AttentionMap]:
        """The maps of single heads, by layer and head."""
        heads = (single for each in self.maps for single in each.by_head())
        return sorted(heads, key=lambda single: (single.layer, single.first_head))

    @cached_property
    def _offsets(self) -> tuple[dict[str, int], int]:
        """The first row of each part when all parts are concatenated, and the number of rows."""
        sizes = [len(nodes) for nodes in self.tokens.values()]
        return dict(zip(self.tokens, np.cumsum([0, *sizes]).tolist(), strict=False)), sum(sizes)

    def has_cls(self, part: str) -> bool:
        """Whether a part of the input begins with ``[CLS]``, which in a translator's target is the end of the text."""
        return len(self.tokens[part]) > len(self.sentences[part])

    @cached_property
    def words(self) -> dict[str, tuple[str, ...]]:
        """Part of the input -> the word of each node; of nodes that are neither tokens nor words, as in ``tokens``."""
        words = dict(self.tokens)
        for text, sentence in self.sentences.items():
            texts = np.array(word_texts(sentence, cls=self.has_cls(text)), dtype=object)
            nodes = word_nodes(text, sentence, cls=self.has_cls(text)).items()
            words |= {part: tuple(texts[numbers]) for part, numbers in nodes if part in words}
        return words

    @cached_property
    def word_numbers(self) -> dict[str, Ints]:
        """Part of the input -> (N,) the word of each node, counted from 0; nodes that are not tokens are words."""
        numbers: dict[str, Ints] = {part: np.arange(len(nodes)) for part, nodes in self.tokens.items()}
        for text, sentence in self.sentences.items():
            nodes = word_nodes(text, sentence, cls=self.has_cls(text)).items()
            numbers |= {part: words for part, words in nodes if part in numbers}
        return numbers

    @cached_property
    def edge_kinds(self) -> dict[str, tuple[EdgeKinds, str]]:
        """Part of a text -> the kinds of its edges, and the type of its nodes."""
        return {
            part_name(text, ends): (EdgeKinds([sentence], cls=self.has_cls(text)), ends)
            for text, sentence in self.sentences.items()
            for ends in (TOKEN, WORD)
        }

    @property
    def has_parse(self) -> bool:
        """Whether a text is parsed."""
        return any(sentence.heads is not None for sentence in self.sentences.values())

    def _degrees(self) -> dict[tuple[int, int, str], Ints]:
        """For each softmax, the number of edges into each target."""
        degrees: dict[tuple[int, int, str], Any] = {}
        for single in self._by_head():
            counts = np.bincount(single.targets, minlength=len(self.tokens[single.target_part]))
            degrees[_softmax_key(single)] = degrees.get(_softmax_key(single), 0) + counts
        return degrees

    def _rows(self, heads: Sequence[AttentionMap], edges: Sequence[Ints] | None = None) -> pd.DataFrame:
        """A table of the maps of single heads: of all edges, or of some of each map."""
        selections: Sequence[Any] = [slice(None)] * len(heads) if edges is None else edges
        sources = [single.sources[rows] for single, rows in zip(heads, selections, strict=True)]
        targets = [single.targets[rows] for single, rows in zip(heads, selections, strict=True)]
        counts = [len(rows) for rows in sources]

        def repeat(name: str) -> Any:
            return np.repeat(np.array([getattr(single, name) for single in heads], dtype=object), counts)

        def look_up(texts: Mapping[str, Sequence[str] | Ints], part: str, positions: Sequence[Ints]) -> Any:
            arrays = {name: np.array(own, dtype=object) for name, own in texts.items()}
            pairs = zip(heads, positions, strict=True)
            return np.concatenate([arrays[getattr(single, part)][rows] for single, rows in pairs])

        parts = {"source_part": repeat("source_part"), "target_part": repeat("target_part")}
        weights = [single.weights[rows, 0] for single, rows in zip(heads, selections, strict=True)]
        return pd.DataFrame(
            {
                "layer": repeat("layer").astype(np.int64),
                "head": repeat("first_head").astype(np.int64),
                "relation": repeat("relation"),
                "scale": pd.Series(repeat("scale"), dtype=object),
                **(parts if len(self.tokens) > 1 else {}),
                "source": np.concatenate(sources),
                "target": np.concatenate(targets),
                "source_token": look_up(self.tokens, "source_part", sources),
                "target_token": look_up(self.tokens, "target_part", targets),
                "source_word": look_up(self.words, "source_part", sources),
                "target_word": look_up(self.words, "target_part", targets),
                "source_word_index": look_up(self.word_numbers, "source_part", sources).astype(np.int64),
                "target_word_index": look_up(self.word_numbers, "target_part", targets).astype(np.int64),
                **({"deprel": np.concatenate(list(map(self.deprels, heads, selections)))} if self.has_parse else {}),
                "weight": np.concatenate(weights),
            }
        )


def word_texts(sentence: Sentence, *, cls: bool = True) -> list[str]:
    """``[CLS]``, if texts have it, and the words, without a translator's mark of blanks.

    Examples
    --------
    >>> word_texts(Sentence(["un", "known", "word"], word_ids=[0, 0, 1]))
    ['[CLS]', 'unknown', 'word']
    """
    return [*[CLS] * cls, *(join_pieces([word]) for word in sentence.words)]


def word_nodes(text: str, sentence: Sentence, *, cls: bool = True) -> dict[str, Ints]:
    """Part -> the word of each node, an index into :func:`word_texts`: of the text's tokens and of its words."""
    words = np.arange(sentence.num_words + cls)
    return {text: np.array(word_ids_of(sentence, cls=cls)), part_name(text, WORD): words}


def _of_head(maps: Sequence[AttentionMap], head: int) -> list[AttentionMap]:
    last = max(each.heads.stop for each in maps) - 1
    if not 0 <= head <= last:
        raise ConfigError(
            f"{{head}} is {head}; the heads of the selected layers count from 0 to {last}", options=("head",)
        )
    return [each.of_head(head) for each in maps if head in each.heads]


def _softmax_key(single: AttentionMap) -> tuple[int, int, str]:
    """Identifies the edges whose weights sum to one: those of a head into a part."""
    return single.layer, single.first_head, single.target_part
