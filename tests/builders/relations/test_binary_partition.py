"""Binary partition: a tree of spans, and a tiling of the text for each token, fine nearby and coarse far away."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn._edges import Edges
from graphattn.builders import BinaryPartition, Sentence, TextGraphBuilder


def tree(length):
    """Level -> its nodes as (first, stop), halving the text upwards until one node is left."""
    levels = [[(token, token + 1) for token in range(length)]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([(below[at][0], below[min(at + 1, len(below) - 1)][1]) for at in range(0, len(below), 2)])
    return levels


def walk(levels, start, count, step):
    """BP-Transformer, section 3: ``count`` nodes per level; the sibling of a node that is already a source is added."""
    sources, at = [], start
    for level, nodes in enumerate(levels):
        left = count - len([node for node in sources if node[0] == level - 1 and node[2]])
        for _ in range(left):
            if 0 <= at < len(nodes):
                sources.append((level, at, False))
            at += step
        is_second_child = at % 2 == (1 if step > 0 else 0)
        if is_second_child:
            if 0 <= at < len(nodes):
                sources.append((level, at, True))
            elif step > 0:
                sources.append((level, None, True))
            at += step
        at = at // 2 if step > 0 else (at - 1) // 2
    return [(level, at) for level, at, _ in sources if at is not None]


def definition_for(count):
    def definition(length):
        levels = tree(length)
        number = {(level, at): None for level, nodes in enumerate(levels) for at in range(len(nodes))}
        spans = {node: index for index, node in enumerate(node for node in number if node[0])}
        name = f"binary:{count}"
        near, far = [], []
        for token in range(length):
            sources = [(0, token), *walk(levels, token + 1, count, 1), *walk(levels, token - 1, count, -1)]
            near += [(token, at) for level, at in sources if level == 0]
            far += [(token, spans[node]) for node in sources if node[0]]
        return {
            ("token", name, "token"): near,
            ("span", name, "token"): far,
            ("token", name, "span"): [
                (index, token) for (level, at), index in spans.items() for token in range(*levels[level][at])
            ],
        }

    return definition


@settings(max_examples=30)
@given(count=st.integers(1, 5), lengths=st.lists(st.integers(0, 40), max_size=3), cls=st.booleans())
def test_binary_partition_equals_its_definition(follows, count, lengths, cls):
    texts, define = [Sentence(["x"] * length) for length in lengths], definition_for(count)
    follows(BinaryPartition(count), texts, lambda text: define(len(text) + cls), cls=cls)


@settings(max_examples=30)
@given(count=st.integers(1, 6), length=st.integers(1, 200))
def test_the_sources_of_a_token_cover_the_text_once(count, length):
    graph = TextGraphBuilder([BinaryPartition(count)], cls=False).text_batch([["x"] * length])
    covered = np.zeros((length, length), int)
    sources, targets = Edges.of(graph, ("token", f"binary:{count}", "token")).ends_by_id()
    np.add.at(covered, (targets.numpy(), sources.numpy()), 1)
    spans = {name: values.numpy() for name, values in graph.node_features["span"].items()}
    sources, targets = Edges.of(graph, ("span", f"binary:{count}", "token")).ends_by_id()
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        covered[target, spans["first"][source] : spans["stop"][source]] += 1
    assert (covered == 1).all()


def test_the_tree_of_a_text():
    graph = TextGraphBuilder([BinaryPartition()], cls=False).text_batch([list("abcdefg")])
    data = {name: values.tolist() for name, values in graph.node_features["span"].items()}
    assert data == {
        "position": [0, 1, 2, 3, 4, 5, 6],
        "level": [1, 1, 1, 1, 2, 2, 3],
        "first": [0, 2, 4, 6, 0, 4, 0],
        "stop": [2, 4, 6, 7, 4, 7, 7],
    }


@pytest.mark.parametrize("count", [1, 4])
def test_edges_grow_like_n_log_n(count):
    layout = TextGraphBuilder([BinaryPartition(count)], cls=False).layout([["x"] * 1024, ["x"] * 4096])
    small, large = BinaryPartition(count).num_edges(layout).tolist()
    assert small <= 1024 * (2 * (count + 1) * 11 + 11)  # O(k n log(n / k)) connections, the paper's abstract
    assert large / small < 4 * 12 / 10 * 1.1
