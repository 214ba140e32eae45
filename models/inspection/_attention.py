"""One prediction with its attention weights, and the ways to save and show it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from graphattn._networkx_graphs import CLS
from graphattn.builders._sentence import Sentence
from graphattn.exceptions import ConfigError
from graphattn.models._corpus import Corpus
from graphattn.models._estimators.inspectable import Inspectable, encode_input
from graphattn.models.inspection._attention_weights import AttentionWeights
from graphattn.models.inspection._capture import ForwardCapture, attention_maps, node_texts
from graphattn.models.inspection._dense_attention import WordNumbers, read_dense, read_outputs
from graphattn.models.inspection._files import save_attention
from graphattn.models.inspection.notebook import (
    attention_bundle,
    attention_html,
    display_in_marimo,
    make_comparison,
    make_widget,
)
from graphattn.models.inspection.page._page_values import to_page

if TYPE_CHECKING:
    from graphattn.models.inspection._widget import AttentionWidget, ComparisonWidget


@dataclass(frozen=True, eq=False)
class Attention(AttentionWeights):
    """One prediction with its attention weights; layers and heads count from 0.

    Heads are numbered in the order in which their outputs are concatenated, relation after relation.

    Parameters
    ----------
    title : the words of the text, of both texts of a pair, or of a translator's source
    prediction : label, labels, tags or text, as from ``predict``; None from a pretrained model alone
    probabilities : class -> probability; for a tagger, one such mapping per word
    tokens : part of the input -> text of each node. A single text is the part ``text``, a pair has ``first`` and
        ``second``, each with ``[CLS]`` first if the model has it; nodes of relations are parts such as ``text relay``
    sentences : text -> its sentence, with words and dependencies: given ones, or those of the model's parser
    maps : the weights
    branches : how much of the prediction's score the linear branch and the graph encoder give, whose weights these are;
        None for a model without a linear branch

    Raises
    ------
    ConfigError
        when a map connects parts or positions that ``tokens`` does not have

    Examples
    --------
    >>> from graphattn.models import MSTransOptions, TextClassifier, TrainingOptions
    >>> encoder = MSTransOptions(hidden=8, heads=2, layers=1, scales=("1", "3"), alpha=0.0)
    >>> classifier = TextClassifier(encoder, training=TrainingOptions(epochs=1))
    >>> attention = classifier.fit(["good film", "bad film"] * 4, ["pos", "neg"] * 4).attention("good film")
    >>> attention.tokens
    {'text': ('[CLS]', 'good', 'film')}
    >>> attention.only(head=0).table()[["source", "target", "source_token", "target_token", "target_word", "weight"]]
       source  target source_token target_token target_word  weight
    0       0       0        [CLS]        [CLS]       [CLS]     1.0
    1       1       1         good         good        good     1.0
    2       2       2         film         film        film     1.0
    >>> attention.matrix(layer=0, head=1).shape
    (3, 3)
    """

    @classmethod
    def from_dense(
        cls,
        attentions: Any,
        tokens: Sequence[str],
        *,
        words: WordNumbers | None = None,
        sentence: Sentence | None = None,
        target_tokens: Sequence[str] | None = None,
        target_words: WordNumbers | None = None,
        decoder: Any = None,
        cross: Any = None,
        relation: str | None = None,
        title: str | None = None,
        prediction: Any = None,
        probabilities: Mapping[Any, float] | None = None,
    ) -> Self:
        """The attention of any model, from dense arrays of weights after the softmax; rows attend to columns.

        An edge has a weight above zero in a head of its layer, so that masks and windows are not edges.

        Parameters
        ----------
        attentions : (layers, heads, N, N) array or tensor, or one (heads, N, N) for each layer; a layer may be None
        tokens : (N,) texts
        words : (N,) the word of each token, None for special tokens, as ``BatchEncoding.word_ids`` gives them; each
            token is a word when None
        sentence : the words that ``words`` number, parsed, for tables of dependencies
        target_tokens, target_words : (T,) of a model with a decoder; then ``tokens`` are those of its source
        decoder : (layers, heads, T, T), as ``attentions``; layers are numbered after those of the encoder
        cross : (layers, heads, T, N) from target tokens to the source; these heads follow those of ``decoder``
        relation : name of the heads' edges; ``causal`` if no token attends to a later one, else ``all``, when None
        title : heading; the tokens when None
        prediction, probabilities : what the model predicts, to be shown

        Raises
        ------
        ConfigError
            when shapes do not fit the tokens, weights are negative or not finite, or those of a token sum to more than
            one

        Examples
        --------
        >>> import numpy as np
        >>> weights = np.array([[[[1.0, 0.0], [0.25, 0.75]]]])  # one layer, one head
        >>> table = Attention.from_dense(weights, ["time", "flies"]).table()
        >>> table[["relation", "source_token", "target_token", "weight"]]
          relation source_token target_token  weight
        0   causal         time         time    1.00
        1   causal         time        flies    0.25
        2   causal        flies        flies    0.75
        """
        data = read_dense(
            attentions,
            tokens,
            words=words,
            sentence=sentence,
            target_tokens=target_tokens,
            target_words=target_words,
            decoder=decoder,
            cross=cross,
            relation=relation,
        )
        title = " ".join(map(str, tokens)) if title is None else title
        return cls(title=title, prediction=prediction, probabilities=probabilities or {}, **data)

    @classmethod
    def from_transformers(
        cls,
        outputs: Any,
        tokenizer: Any,
        inputs: Any,
        *,
        row: int = 0,
        sentence: Sentence | None = None,
        title: str | None = None,
        prediction: Any = None,
        probabilities: Mapping[Any, float] | None = None,
    ) -> Self:
        """The attention of a text by a model of transformers, without padding.

        The model must be loaded with ``attn_implementation="eager"`` and called with ``output_attentions=True``.

        Parameters
        ----------
        outputs : of the model; with ``attentions``, or with those of an encoder, a decoder and between them
        tokenizer : the model's
        inputs : what the tokenizer returned, or (B, N) ids; for a decoder also ``decoder_input_ids``
        row : which text of the batch
        sentence, title, prediction, probabilities : as for :meth:`from_dense`; the tokenizer must have split the words
            of a parsed ``sentence``: ``tokenizer(sentence.words, is_split_into_words=True)``

        Raises
        ------
        ConfigError
            when there are no weights, or as :meth:`from_dense`
        """
        arguments = read_outputs(outputs, tokenizer, inputs, row=row, sentence=sentence)
        return cls.from_dense(**arguments, title=title, prediction=prediction, probabilities=probabilities)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the weights atomically.

        Parameters
        ----------
        path : ``.parquet`` or ``.csv`` for :meth:`table`; ``.graphml``, ``.gexf``, ``.gml`` or ``.json`` (node-link)
            for :meth:`graph`; ``.html`` for the page of :func:`~graphattn.models.inspection.page.write_page`

        Raises
        ------
        ConfigError
            for another suffix, or as :meth:`table` and :meth:`graph`
        DataError
            when the file cannot be written
        """
        return save_attention(self, Path(path))

    def to_page(self, *, arrays: bool = False) -> dict[str, Any]:
        """Prediction, tokens and weights for JSON; see :mod:`graphattn.models.inspection.page._page_values`.

        Parameters
        ----------
        arrays : keep edges and weights as arrays, in a tenth of the memory
        """
        return to_page(self, arrays=arrays)

    def widget(self, *more: Attention) -> AttentionWidget:
        """The interactive view of this result, for notebooks; needs the extra ``notebook``.

        Its attributes ``layer``, ``head``, ``relation``, ``token`` (numbered over all parts, as the rows of
        :meth:`matrix`) and ``edges`` (pairs of source and target) follow what is chosen with the mouse or keyboard, and
        the view follows them; None is all of them, or none. ``selected`` is what is chosen as rows of :meth:`table`:
        the chosen edges, or else those into the token, or else all of the layer, head and relation.

        Parameters
        ----------
        more : results of further texts by the same model, to choose from

        Raises
        ------
        ConfigError
            when anywidget is not installed, or there is too much for a browser
        """
        return make_widget(self, *more)

    def compare(self, other: Attention | None = None) -> ComparisonWidget:
        """Two results side by side, as by :meth:`widget`: two models, two texts, or two heads of this result.

        The attributes of the second are called ``other_layer``, ``other_selected`` and so on. Pointing at a token of
        one highlights it in the other, if both texts have the same tokens.

        Parameters
        ----------
        other : the second result; this one when None

        Raises
        ------
        ConfigError
            as :meth:`widget`
        """
        return make_comparison(self, self if other is None else other)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return attention_bundle(self, **options)

    def _display_(self) -> Any:
        return display_in_marimo(self)

    def _repr_html_(self) -> str:
        return attention_html(self)


def predict_attention(
    estimator: Inspectable, x: Any, *, target: str | None = None, features: bool = False
) -> Attention:
    """The attention of one input, for a translator to a given target."""
    inputs = encode_input(estimator, x, target=target)
    with torch.inference_mode():
        return attention_of(estimator, inputs, estimator.explainer_.capture(inputs.first_batch, features=features))


def attention_of(estimator: Inspectable, inputs: Corpus, capture: ForwardCapture) -> Attention:
    """The attention of one input, from the capture of a pass over it; a ConfigError for an encoder without weights."""
    if not capture.layers:
        raise ConfigError(f"encoder {estimator.encoder_name!r} has no attention weights")
    sentences, graph = inputs.first_sentences, inputs.first_batch.graph
    without = () if inputs.builder.cls else inputs.graph_texts  # a translator's target begins with its end
    tokens = {name: (*[CLS] * (name not in without), *sentence.tokens) for name, sentence in sentences.items()}
    nodes = node_texts(graph, {name: tokens[name] for name in inputs.graph_texts})
    relations = estimator.model_.encoder.relations()
    explainer, scores = estimator.explainer_, capture.scores.detach()
    title, prediction, probabilities = explainer.describe_prediction(inputs, scores)
    return Attention(
        title=title,
        prediction=prediction,
        probabilities=probabilities,
        tokens={**nodes, **tokens},
        sentences=sentences,
        maps=tuple(attention_maps(capture, graph, relations, inputs.graph_texts)),
        branches=explainer.score_branches(inputs, scores),
    )
