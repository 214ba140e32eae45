"""Batches of sentences of given lengths, as graphs."""

from collections.abc import Callable

import pytest

from graphattn.builders import Sentence, TextGraphBuilder, Window


@pytest.fixture(scope="session")
def graph_of() -> Callable:
    """A graph of sentences with these numbers of words, or of given sentences."""

    def build(*sentences: int | Sentence) -> object:
        words = [["x"] * sentence if isinstance(sentence, int) else sentence for sentence in sentences]
        return TextGraphBuilder([Window(1)]).text_batch(words)

    return build
