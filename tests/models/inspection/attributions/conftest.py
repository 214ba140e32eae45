"""Small models of every encoder in double precision, and their scores computed densely, with factors on the weights."""

import copy
import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch.nn import functional as F

from graphattn import Edges
from graphattn.builders import Sentence
from graphattn.models import (
    DecoderOptions,
    DuoOptions,
    HeadOptions,
    InputOptions,
    MSTransOptions,
    MTSAOptions,
    MultiStageOptions,
    PairClassifier,
    SequenceTagger,
    SubwordOptions,
    TextClassifier,
    TrainingOptions,
    TransformerOptions,
    TranslationTraining,
    Translator,
)
from graphattn.models._encoders import ENCODERS as EVERY_ENCODER
from graphattn.models._encoders.base import sinusoids


@pytest.fixture(scope="session")
def without_edge():
    """A copy of a batch without the edge between two nodes."""

    def remove(batch, relation, source, target):
        name = next(each for each in batch.edges if relation in (each, each[1]))
        edges = batch.edges[name]
        pairs = [
            ends for ends in zip(*map(torch.Tensor.tolist, edges.ends_by_id()), strict=True) if ends != (source, target)
        ]
        assert len(pairs) == edges.num_edges - 1
        sources, targets = torch.tensor(pairs, dtype=torch.int32).T
        smaller = Edges.of_pairs(sources, targets, edges.num_sources, edges.num_destinations)
        return replace(batch, edges={**batch.edges, name: smaller})

    return remove


TEXTS = ["a fine film indeed", "dull", "a dull film", "fine and never dull at all"]
LABELS = ["good", "bad", "bad", "fair"]
PLAIN = InputOptions(embedding=6, characters=False, cls=True)
BRIEF = TrainingOptions(epochs=3, learning_rate=0.01, dev_fraction=0.0, precision="32")
ENCODERS = {
    "ms-trans": MSTransOptions(hidden=6, heads=3, layers=2, scales=("1", "3", "N")),
    "transformer": TransformerOptions(hidden=6, heads=2, layers=2, ffn=8),
    "mtsa": MTSAOptions(hidden=6),
    "duo": DuoOptions(hidden=6),
}


def fit(kind, encoder, inputs, labels):
    model = kind(encoder, inputs=PLAIN, head=HeadOptions(linear_branch=False, crf=False), training=BRIEF)
    model.fit(inputs * 4, labels * 4)
    model.model_ = copy.deepcopy(model.model_).double()
    return model


@pytest.fixture(scope="session")
def classifiers():
    """Encoder -> a classifier of three classes, in float64."""
    return {name: fit(TextClassifier, options, TEXTS, LABELS) for name, options in ENCODERS.items()}


@pytest.fixture(scope="session")
def word_classifier():
    """A classifier whose last layer has heads between words."""
    return fit(TextClassifier, MultiStageOptions(hidden=8, heads=2, ffn=8), TEXTS, LABELS)


@pytest.fixture(params=ENCODERS)
def classifier(request, classifiers):
    """A classifier of each encoder with attention."""
    return classifiers[request.param]


@pytest.fixture(scope="session")
def tagger():
    """A tagger with three tags, in float64."""
    tags = [[{"a": "D", "and": "C"}.get(word, "X") for word in text.split()] for text in TEXTS]
    return fit(SequenceTagger, ENCODERS["ms-trans"], [text.split() for text in TEXTS], tags)


@pytest.fixture(scope="session")
def pair_classifier():
    """A classifier of pairs, in float64."""
    pairs = [(one, other) for one in TEXTS[:2] for other in TEXTS[2:]]
    return fit(PairClassifier, ENCODERS["ms-trans"], pairs, ["same", "other"] * 2)


def tree(text):
    """A sentence in which each word depends on the previous one."""
    return Sentence(text.split(), heads=range(len(text.split())))


@pytest.fixture(scope="session")
def translators(toy_pairs):
    """Make a translator with an encoder, in float64; its sources are sentences: ``translators("umst")``."""
    made = {}

    def of(encoder):
        if encoder not in made:
            sizes = {"hidden": 16, "layers": 2, "heads": 4, "ffn": 24, "dropout": 0.1}
            sources, targets = toy_pairs(16)
            translator = Translator(
                EVERY_ENCODER[encoder][0].for_translation(sizes),
                inputs=SubwordOptions(vocabulary_size=90, cls=True),
                decoder=DecoderOptions(2, 2, 24, 0.1),
                training=TranslationTraining(
                    epochs=1, max_tokens=200, dev_fraction=0.0, progress=False, precision="32"
                ),
            ).fit(map(tree, sources), targets)
            translator.model_ = copy.deepcopy(translator.model_).double()
            made[encoder] = translator
        return made[encoder]

    return of


@pytest.fixture(params=EVERY_ENCODER)
def translator(request, translators):
    """A translator with each encoder."""
    return translators(request.param)


@pytest.fixture(scope="session")
def source():
    """A parsed source."""
    return tree("the dog sees a cat.")


@pytest.fixture
def precise(monkeypatch):
    """Keep the models' scores in float64."""
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor)


@pytest.fixture(scope="session")
def log_odds():
    """log p / (1 - p) of a class, from probabilities."""

    def compute(scores, label):
        chance = scores.softmax(-1)[..., label]
        return torch.log(chance / (1 - chance))

    return compute


@dataclass
class Dense:
    """A classifier of one text, by matrices; ``factors[layer, head]`` (targets, sources) multiply the weights."""

    estimator: object
    text: str

    def __post_init__(self):
        batch = self.estimator.encode([self.text])[[0]]
        data = batch.graph.node_features["token"]
        self.model, self.tokens = self.estimator.model_, self.estimator.model_.embedding(data["id"])
        self.graph, self.count = batch.graph, len(data["id"])
        self.factors = {}

    def factor(self, layer, head):
        ones = torch.ones(self.count, self.count, dtype=torch.float64, requires_grad=True)
        return self.factors.setdefault((layer, head), ones)

    def mask(self, relation):
        target, source = torch.meshgrid(torch.arange(self.count), torch.arange(self.count), indexing="ij")
        if relation.startswith("window:"):
            scale = relation.removeprefix("window:")
            width = self.count | 1 if scale == "N" else int(scale)
            return (target - source).abs() <= width // 2
        return {"all": target >= 0, "forward": source < target, "backward": source > target}[relation]

    def attend(self, attention, tokens, layer):
        query, key, value = attention.project(tokens).view(self.count, 3, -1, attention.head_feats).unbind(1)
        names = [relation for relation, count in attention.heads.items() for _ in range(count)]
        outputs = []
        for head, relation in enumerate(names):
            scores = query[:, head] @ key[:, head].T / math.sqrt(attention.head_feats)
            weights = scores.masked_fill(~self.mask(relation), -math.inf).softmax(1)
            outputs.append((weights * self.factor(layer, head)) @ value[:, head])
        return attention.output(torch.cat(outputs, dim=1))

    def ms_trans(self, tokens):
        for number, layer in enumerate(self.model.encoder.layers):
            tokens = layer.norm(tokens + F.relu(self.attend(layer.attention, tokens, number)))
        return tokens

    def transformer(self, tokens):
        tokens = tokens + sinusoids(torch.arange(self.count), 6, torch.float64)
        for number, layer in enumerate(self.model.encoder.layers):
            tokens = layer.attention_norm(tokens + self.attend(layer.attention, tokens, number))
            tokens = layer.ffn_norm(tokens + layer.narrow(F.relu(layer.widen(tokens))))
        return tokens

    def duo(self, tokens):
        encoder = self.model.encoder
        one, other = tokens.split(encoder.parts, dim=1)
        outputs = []
        for head, (own, values) in enumerate([(one, other), (other, one)]):
            scores = encoder.scores[head](own) @ own.T / math.sqrt(own.shape[1])
            outputs.insert(0, (scores.softmax(1) * self.factor(0, head)) @ values)
        return encoder.fusion(torch.cat(outputs, dim=1))

    def mtsa(self, tokens):
        """The gated variant: values, queries, keys and scores of each head, a softmax for each feature, the gate."""
        (layer,) = self.model.encoder.layers
        own = layer.attention
        outputs = []
        for head, relation in enumerate(own.heads):
            rows = slice(head * own.head_feats, (head + 1) * own.head_feats)
            value = F.elu(tokens @ own.value.weight[rows].T + own.value.bias[rows])
            query, key = value @ own.query.weight[head], value @ own.key.weight[head]
            inner = F.elu(value @ own.source_inner.weight[head] + own.source_inner.bias[head])
            source = inner @ own.source_outer.weight[head] + own.source_outer.bias[head]
            pairs = F.logsigmoid(query @ key.T / math.sqrt(own.head_feats))
            scores = pairs.unsqueeze(2) + source.unsqueeze(0)  # (targets, sources, features)
            weights = scores.masked_fill(~self.mask(relation).unsqueeze(2), -math.inf).softmax(1).nan_to_num(0)
            attended = torch.einsum("ts,tsf,sf->tf", self.factor(0, head), weights, value)
            both = torch.cat([value, attended], dim=1)
            gate = torch.sigmoid(both @ own.gate.weight[head] + own.gate.bias[head])
            outputs.append(gate * value + (1 - gate) * attended)
        return torch.cat(outputs, dim=1)

    def scores(self):
        encode = getattr(self, self.estimator.encoder_.name.replace("-", "_"))
        head = self.model.head  # its forward method returns single precision
        return head.perceptron(head.items_of(head.sentences(encode(self.tokens), self.graph)))[0]


@pytest.fixture(scope="session")
def dense():
    """Compute densely: ``dense(classifier, text)``."""
    return Dense
