"""A small grammar of English-like reviews: a corpus made on the spot, for the demo and for tests.

A review says that things were good or bad, in one clause or in two, and every answer is known by construction: label,
tags, dependency heads, and the sub-words of a word.

- *Local evidence.* "not", "never" and "hardly" turn the adjective around that follows in the same predicate ("were
  not a really good choice"); the same words inside "that the guests never ordered" turn nothing around.
- *Long-range evidence.* Two clauses joined by "and" agree; of others one decides: the one after "but", or the one
  without "although", "though" or "while". That word can stand twenty words away from the adjective that it weighs.
- *Inside a word.* Sub-words flip too: "un|pleasant", "taste|less", but "un|forgettable" and "fault|less" are praise.
- *Tags.* "orders" is a noun or a verb, "ordered" past tense or participle, "that" a pronoun or a conjunction, as the
  neighbours say. "fish" or "series" is singular or plural only by its verb, behind the relative clause and its nouns.
- *Words.* About 120, in lower case; tags are Penn Treebank's, relations are Universal Dependencies'.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError, DataError

LABELS = ("negative", "positive")
LONGEST = 40
"""Most tokens in a sentence, counted after words are cut into sub-words."""

_NEGATORS = ("not", "never", "hardly")
_SUBORDINATORS = ("although", "though", "while")
_ADVERBS = ("really", "truly", "quite")
_REPORTS = ("agreed", "felt", "thought", "said")
_OUTCOMES = ("choice", "surprise", "experience")
_PREPOSITIONS = ("from", "at")
_PLACES = (("hotel", "hotels"), ("market", "markets"), ("village", "villages"), ("festival", "festivals"))

# A bar marks where an adjective is cut when sub-words are asked for.
_PRAISE = (
    *("good", "great", "superb", "lovely", "fine", "charming", "pleasant", "impressive", "remarkable", "inspired"),
    *("un|forgettable", "un|spoiled", "joy|ful", "taste|ful", "flaw|less", "fault|less"),
)
_BLAME = (
    *("bad", "awful", "dreadful", "poor", "dull", "weak", "forgettable", "spoiled"),
    *("un|pleasant", "un|impressive", "un|remarkable", "un|inspired", "joy|less", "taste|less", "flaw|ed", "fault|y"),
)
_PEOPLE_ARE = (
    *("great", "lovely", "charming", "pleasant", "impressive", "inspired", "joyful"),
    *("awful", "dreadful", "dull", "unpleasant", "unimpressive", "uninspired", "joyless"),
)
_PIECES = {word.replace("|", ""): tuple(word.split("|")) for word in (*_PRAISE, *_BLAME)}
_POLARITY = {word.replace("|", ""): words is _PRAISE for words in (_PRAISE, _BLAME) for word in words}

_Forms = TypeVar("_Forms", bound=tuple[str, ...])


@dataclass(frozen=True, slots=True)
class _Topic:
    """Words that go together: nouns as (singular, plural), verbs as (base, third person, past, participle)."""

    things: tuple[tuple[str, str], ...]
    people: tuple[tuple[str, str], ...]
    verbs: tuple[tuple[str, str, str, str], ...]


_TOPICS = (
    _Topic(
        things=(
            *(("soup", "soups"), ("cake", "cakes"), ("roast", "roasts"), ("order", "orders")),
            *(("fish", "fish"), ("salmon", "salmon"), ("trout", "trout"), ("shrimp", "shrimp")),
        ),
        people=(("waiter", "waiters"), ("guest", "guests"), ("cook", "cooks"), ("owner", "owners")),
        verbs=(
            ("order", "orders", "ordered", "ordered"),
            ("cook", "cooks", "cooked", "cooked"),
            ("roast", "roasts", "roasted", "roasted"),
            ("praise", "praises", "praised", "praised"),
        ),
    ),
    _Topic(
        things=(
            *(("play", "plays"), ("film", "films"), ("show", "shows"), ("review", "reviews")),
            *(("series", "series"), ("series", "series")),  # twice, to be as frequent as the fish are together
        ),
        people=(("actor", "actors"), ("critic", "critics"), ("student", "students"), ("director", "directors")),
        verbs=(
            ("film", "films", "filmed", "filmed"),
            ("show", "shows", "showed", "shown"),
            ("review", "reviews", "reviewed", "reviewed"),
            ("praise", "praises", "praised", "praised"),
        ),
    ),
)


def generate(count: int, *, seed: int, subwords: bool = False) -> list[Sentence]:
    """Write a corpus of distinct sentences, half of them positive.

    Parameters
    ----------
    count : how many sentences
    seed : the same seed gives the same sentences
    subwords : cut adjectives such as "unpleasant" into "un" and "pleasant"; the words stay the same

    Returns
    -------
    Sentences of 4 to 40 tokens with label, tags, heads and relation names; of any two in a row that start at an even
    index one is positive and one negative.

    Raises
    ------
    ConfigError
        when ``count`` is negative

    Examples
    --------
    >>> for sentence in generate(3, seed=471):
    ...     print(sentence.label, "|", *sentence.tokens)
    negative | the salmon at the hotel was remarkable , but the orders were never truly pleasant .
    positive | the salmon were never a dreadful choice .
    negative | although the fish were fine , the trout that the cooks never roast were poor .
    """
    if count < 0:
        raise ConfigError(f"count is {count}. Ask for 0 sentences or more.")
    sentences = _distinct_sentences(random.Random(seed), subwords)
    return [next(sentences) for _ in range(count)]


def corpus(
    train: int, dev: int, test: int, *, seed: int, subwords: bool = False
) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """Write the three parts of a corpus; no sentence is in two of them.

    Parameters
    ----------
    train, dev, test : how many sentences each part has
    seed, subwords : as in :func:`generate`

    Raises
    ------
    ConfigError
        when a number is negative

    Examples
    --------
    >>> [len(part) for part in corpus(60, 20, 20, seed=1)]
    [60, 20, 20]
    """
    for name, size in (("train", train), ("dev", dev), ("test", test)):
        if size < 0:
            raise ConfigError(f"{name} is {size}. Ask for 0 sentences or more.")
    sentences = generate(train + dev + test, seed=seed, subwords=subwords)
    return sentences[:train], sentences[train : train + dev], sentences[train + dev :]


def explain(sentence: Sentence) -> str:
    """Say in one line why a sentence of this grammar has its label.

    Raises
    ------
    DataError
        when the sentence is not one that :func:`generate` wrote

    Examples
    --------
    >>> for sentence in generate(3, seed=471):
    ...     print(explain(sentence))
    negative: "pleasant" is praise, turned around by "never", and what follows "but" decides
    positive: "dreadful" is blame, turned around by "never"
    negative: "poor" is blame, and the clause with "although" does not count
    """
    words, heads, relations = sentence.words, sentence.heads, sentence.deprels
    if not words or heads is None or relations is None:
        raise DataError("no heads and relation names to explain the label by", hint=_ONLY_GENERATED)

    def below(head: int, relation: str) -> int | None:
        """The first word that depends on a head in this relation."""
        return next((w for w, above in enumerate(heads) if above == head + 1 and relations[w] == relation), None)

    def word_below(head: int | None, relation: str) -> str:
        place = None if head is None else below(head, relation)
        return "" if place is None else words[place]

    root = heads.index(0)
    second = below(root, "conj")
    joined_by, conceded_by = word_below(second, "cc"), word_below(below(root, "advcl"), "mark")
    deciding = second if second is not None and joined_by == "but" else root
    predicate = below(deciding, "ccomp") or deciding  # what is reported never comes first
    adjective = words[below(predicate, "amod") or predicate]
    if adjective not in _POLARITY:
        raise DataError(f"{adjective!r} is no adjective of this grammar", hint=_ONLY_GENERATED)
    positive = _POLARITY[adjective]
    because = f'"{adjective}" is {"praise" if positive else "blame"}'
    if (negator := word_below(predicate, "advmod")) in _NEGATORS:
        positive = not positive
        because += f', turned around by "{negator}"'
    if joined_by:
        because += ', and what follows "but" decides' if joined_by == "but" else ', and what follows "and" agrees'
    elif conceded_by:
        because += f', and the clause with "{conceded_by}" does not count'
    return f"{LABELS[positive]}: {because}"


_ONLY_GENERATED = "explain() reads the sentences of generate()."


@dataclass(slots=True)
class _Node:
    """A word in its tree: what depends on it stands before or after it, in this order."""

    form: str
    tag: str
    relation: str
    before: list[_Node] = field(default_factory=list)
    after: list[_Node] = field(default_factory=list)


def _distinct_sentences(rng: random.Random, subwords: bool) -> Iterator[Sentence]:
    seen: set[Sequence[str]] = set()
    while True:
        first = rng.random() < 0.5
        for positive in (first, not first):
            while True:
                whole = _as_sentence(_Writer(rng).sentence(positive), LABELS[positive])
                cut = _cut(whole)
                if whole.tokens not in seen and len(cut) <= LONGEST:
                    break
            seen.add(whole.tokens)
            yield cut if subwords else whole


def _as_sentence(root: _Node, label: str) -> Sentence:
    ordered: list[tuple[_Node, _Node | None]] = []

    def walk(node: _Node, above: _Node | None) -> None:
        for child in node.before:
            walk(child, node)
        ordered.append((node, above))
        for child in node.after:
            walk(child, node)

    walk(root, None)
    number = {id(node): position for position, (node, _) in enumerate(ordered, start=1)}
    return Sentence(
        tokens=tuple(node.form for node, _ in ordered),
        heads=tuple(0 if above is None else number[id(above)] for _, above in ordered),
        deprels=tuple(node.relation for node, _ in ordered),
        label=label,
        tags=tuple(node.tag for node, _ in ordered),
    )


def _cut(sentence: Sentence) -> Sentence:
    pieces = [_PIECES.get(word, (word,)) for word in sentence.words]
    word_ids = [word for word, parts in enumerate(pieces) for _ in parts]
    return sentence.with_tokens([piece for parts in pieces for piece in parts], word_ids)


class _Writer:
    """Writes one sentence; each method is one rule of the grammar."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.topic = rng.choice(_TOPICS)
        self.used: set[str] = set()

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def sentence(self, positive: bool) -> _Node:
        """One clause, or two: they agree, or one of them decides."""
        form = self.rng.choices(("alone", "and", "but", "conceded first", "conceded last"), (32, 20, 16, 16, 16))[0]
        if form == "alone":
            root = self.clause(positive, pronoun=self.chance(0.25), reported=self.chance(0.2))
        elif form in ("and", "but"):
            root = self.clause(positive == (form == "and"))
            second = self.clause(positive, relation="conj", reported=self.chance(0.2))
            second.before[:0] = [_Node(",", ",", "punct"), _Node(form, "CC", "cc")]
            root.after.append(second)
        else:
            root = self.clause(positive, reported=self.chance(0.2))
            conceded = self.clause(not positive, relation="advcl")
            conceded.before.insert(0, _Node(self.rng.choice(_SUBORDINATORS), "IN", "mark"))
            if form == "conceded first":
                conceded.after.append(_Node(",", ",", "punct"))
                root.before.insert(0, conceded)
            else:
                conceded.before.insert(0, _Node(",", ",", "punct"))
                root.after.append(conceded)
        root.after.append(_Node(".", ".", "punct"))
        return root

    def clause(self, positive: bool, *, relation: str = "root", pronoun: bool = False, reported: bool = False) -> _Node:
        """A thing was good or bad, or: people said that it was."""
        plural = self.chance(0.5)
        subject = _Node("they" if plural else "it", "PRP", "nsubj") if pronoun else self.thing(plural)
        predicate = self.predicate(positive, plural, "ccomp" if reported else relation)
        predicate.before.insert(0, subject)
        if not reported:
            return predicate
        predicate.before.insert(0, _Node("that", "IN", "mark"))
        return _Node(self.rng.choice(_REPORTS), "VBD", relation, [self.people("nsubj")[0]], [predicate])

    def predicate(self, positive: bool, plural: bool, relation: str) -> _Node:
        """The copula, perhaps a negation, and an adjective, perhaps with a noun."""
        negated = self.chance(0.4)
        adjective = self.adjective(positive != negated)
        if self.chance(0.4):
            adverbs = _ADVERBS[:2] if negated else _ADVERBS  # nothing is "hardly quite good"
            adjective.before.append(_Node(self.rng.choice(adverbs), "RB", "advmod"))
        head = adjective
        if self.chance(0.25):
            first = (adjective.before or [adjective])[0].form
            article = _Node("an" if first[0] in "aeiou" else "a", "DT", "det")
            head = _Node(self.rng.choice(_OUTCOMES), "NN", relation, [article, adjective])
        head.relation = relation
        if negated:
            head.before.insert(0, _Node(self.rng.choice(_NEGATORS), "RB", "advmod"))
        head.before.insert(0, _Node("were" if plural else "was", "VBD", "cop"))
        return head

    def thing(self, plural: bool) -> _Node:
        """What the clause is about: alone, with a place, or with a relative clause that separates it from its verb."""
        noun = self.noun(self.topic.things, plural, "nsubj")
        form = self.rng.choices(("alone", "place", "relative", "participle"), (35, 15, 35, 15))[0]
        if form == "place":
            noun.after.append(self.place())
        elif form == "relative":
            noun.after.append(self.relative_clause())
        elif form == "participle":
            by, _ = self.people("obl")
            by.before.insert(0, _Node("by", "IN", "case"))
            noun.after.append(_Node(self.verb()[3], "VBN", "acl", [], [by]))
        return noun

    def relative_clause(self) -> _Node:
        """As in "that the guests never ordered", in some tense; a negation in here turns no adjective around."""
        people, plural = self.people("nsubj")
        base, third, past, participle = self.verb()
        negator = [_Node(self.rng.choice(_NEGATORS[1:]), "RB", "advmod")] if self.chance(0.35) else []
        tense = self.rng.choice(("present", "past", "perfect", "did not"))
        if tense == "present":
            verb = _Node(base, "VBP", "acl:relcl", negator) if plural else _Node(third, "VBZ", "acl:relcl", negator)
        elif tense == "past":
            verb = _Node(past, "VBD", "acl:relcl", negator)
        elif tense == "perfect":
            verb = _Node(participle, "VBN", "acl:relcl", [_Node("had", "VBD", "aux"), *negator])
        else:
            verb = _Node(base, "VB", "acl:relcl", [_Node("did", "VBD", "aux"), _Node("not", "RB", "advmod")])
        verb.before[:0] = [_Node("that", "WDT", "obj"), people]
        return verb

    def people(self, relation: str) -> tuple[_Node, bool]:
        """Who ordered or said something, and whether there are several; their own qualities decide nothing."""
        plural = self.chance(0.5)
        noun = self.noun(self.topic.people, plural, relation)
        if self.chance(0.25):
            noun.before.append(_Node(self.rng.choice(_PEOPLE_ARE), "JJ", "amod"))
        if self.chance(0.2):
            noun.after.append(self.place())
        return noun, plural

    def place(self) -> _Node:
        place = self.noun(_PLACES, self.chance(0.5), "nmod")
        place.before.insert(0, _Node(self.rng.choice(_PREPOSITIONS), "IN", "case"))
        return place

    def noun(self, nouns: tuple[tuple[str, str], ...], plural: bool, relation: str) -> _Node:
        forms = self.unused(nouns)
        return _Node(forms[plural], "NNS" if plural else "NN", relation, [_Node("the", "DT", "det")])

    def verb(self) -> tuple[str, str, str, str]:
        return self.unused(self.topic.verbs)

    def adjective(self, praise: bool) -> _Node:
        return _Node(self.rng.choice(_PRAISE if praise else _BLAME).replace("|", ""), "JJ", "amod")

    def unused(self, words: tuple[_Forms, ...]) -> _Forms:
        """Choose a word that does not yet stand in the sentence, so that no cook cooks."""
        chosen = self.rng.choice([forms for forms in words if forms[0] not in self.used] or words)
        self.used.add(chosen[0])
        return chosen
