"""A small grammar of English-like reviews, which generates a corpus for the demo and for tests.

A review says that things were good or bad, in one clause or in two. The grammar knows every answer: label, tags,
dependency heads, and the sub-words of a word.

- *Local evidence.* "not", "never" and "hardly" negate the next adjective of the same predicate ("were not a really good
  choice"); inside "that the guests never ordered" they negate nothing.
- *Long-range evidence.* Two clauses joined by "and" agree; otherwise one of them decides: the one after "but", or the
  one without "although", "though" or "while". That word can be twenty words away from the adjective.
- *Inside a word.* Sub-words negate, too: "un|pleasant", "taste|less", but "un|forgettable" and "fault|less" are praise.
- *Tags.* "orders" is a noun or a verb, "ordered" past tense or participle, "that" a pronoun or a conjunction, depending
  on the neighbours. "fish" or "series" is singular or plural only by its verb, which follows the relative clause.
- *Words.* About 120, in lower case; tags are those of the Penn Treebank, relations those of Universal Dependencies.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from graphattn.builders._sentence import Sentence
from graphattn.exceptions import DataError

LABELS = ("negative", "positive")
LONGEST = 40
"""Most tokens of a sentence, after words are split into sub-words."""

_NEGATORS = ("not", "never", "hardly")
_SUBORDINATORS = ("although", "though", "while")
_ADVERBS = ("really", "truly", "quite")
_REPORTS = ("agreed", "felt", "thought", "said")
_OUTCOMES = ("choice", "surprise", "experience")
_PREPOSITIONS = ("from", "at")
_PLACES = (("hotel", "hotels"), ("market", "markets"), ("village", "villages"), ("festival", "festivals"))

# A bar separates the sub-words of an adjective.
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
    """Words of one topic: nouns as (singular, plural), verbs as (base, third person, past, participle)."""

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
            *(("series", "series"), ("series", "series")),  # twice, to be as frequent as all fish
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
    """Generate distinct sentences of 4 to 40 tokens: of sentences 2 i and 2 i + 1, one is positive and one negative.

    With ``subwords``, adjectives such as "unpleasant" are split into "un" and "pleasant".

    Examples
    --------
    >>> for sentence in generate(3, seed=471):
    ...     print(sentence.label, "|", *sentence.tokens)
    negative | the salmon at the hotel was remarkable , but the orders were never truly pleasant .
    positive | the salmon were never a dreadful choice .
    negative | although the fish were fine , the trout that the cooks never roast were poor .
    """
    sentences = _distinct_sentences(random.Random(seed), subwords)
    return [next(sentences) for _ in range(count)]


def corpus(
    train: int, dev: int, test: int, *, seed: int, subwords: bool = False
) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """Generate the three parts of a corpus; no sentence is in two of them.

    Examples
    --------
    >>> [len(part) for part in corpus(60, 20, 20, seed=1)]
    [60, 20, 20]
    """
    sentences = generate(train + dev + test, seed=seed, subwords=subwords)
    return sentences[:train], sentences[train : train + dev], sentences[train + dev :]


def explain(sentence: Sentence) -> str:
    """Explain the label of a generated sentence on one line.

    Examples
    --------
    >>> for sentence in generate(3, seed=471):
    ...     print(explain(sentence))
    negative: "pleasant" is praise, negated by "never", and what follows "but" decides
    positive: "dreadful" is blame, negated by "never"
    negative: "poor" is blame, and the clause with "although" does not count
    """
    if not (sentence.words and sentence.heads and sentence.deprels):
        raise DataError("the sentence has no heads and relation names", hint=_ONLY_GENERATED)
    root = sentence.heads.index(0)
    conjunction = _dependent_word(sentence, _find_dependent(sentence, root, "conj"), "cc")
    predicate = _find_predicate(sentence, root, conjunction)
    adjective = sentence.words[_find_dependent(sentence, predicate, "amod") or predicate]
    if adjective not in _POLARITY:
        raise DataError(f"{adjective!r} is not an adjective of this grammar", hint=_ONLY_GENERATED)
    positive = _POLARITY[adjective]
    reasons = [f'"{adjective}" is {"praise" if positive else "blame"}']
    negator = _dependent_word(sentence, predicate, "advmod")
    if negator in _NEGATORS:
        positive = not positive
        reasons.append(f'negated by "{negator}"')
    if conjunction:
        reasons.append(f'and what follows "{conjunction}" {"decides" if conjunction == "but" else "agrees"}')
    elif subordinator := _dependent_word(sentence, _find_dependent(sentence, root, "advcl"), "mark"):
        reasons.append(f'and the clause with "{subordinator}" does not count')
    return f"{LABELS[positive]}: {', '.join(reasons)}"


_ONLY_GENERATED = "Pass sentences of generate()."


def _find_predicate(sentence: Sentence, root: int, conjunction: str) -> int:
    """The predicate that decides: after "but", and of "they said that ..." the reported one."""
    clause = (_find_dependent(sentence, root, "conj") if conjunction == "but" else None) or root
    return _find_dependent(sentence, clause, "ccomp") or clause


def _find_dependent(sentence: Sentence, head: int, relation: str) -> int | None:
    """The first word that depends on ``head`` by this relation."""
    arcs = zip(sentence.heads or (), sentence.deprels or (), strict=True)
    return next((word for word, arc in enumerate(arcs) if arc == (head + 1, relation)), None)


def _dependent_word(sentence: Sentence, head: int | None, relation: str) -> str:
    word = None if head is None else _find_dependent(sentence, head, relation)
    return "" if word is None else sentence.words[word]


@dataclass(slots=True)
class _Word:
    """A word of a tree, with its dependents before and after it in their order."""

    form: str
    tag: str
    relation: str
    before: list[_Word] = field(default_factory=list)
    after: list[_Word] = field(default_factory=list)


def _distinct_sentences(rng: random.Random, subwords: bool) -> Iterator[Sentence]:
    known: set[Sequence[str]] = set()
    while True:
        first = rng.random() < 0.5
        for positive in (first, not first):
            while True:
                whole = _as_sentence(_Writer(rng).make_sentence(positive), LABELS[positive])
                split = _split_adjectives(whole)
                if whole.tokens not in known and len(split) <= LONGEST:
                    break
            known.add(whole.tokens)
            yield split if subwords else whole


def _as_sentence(root: _Word, label: str) -> Sentence:
    ordered: list[tuple[_Word, _Word | None]] = []

    def visit(node: _Word, above: _Word | None) -> None:
        for child in node.before:
            visit(child, node)
        ordered.append((node, above))
        for child in node.after:
            visit(child, node)

    visit(root, None)
    number = {id(node): position for position, (node, _) in enumerate(ordered, start=1)}
    return Sentence(
        tokens=tuple(node.form for node, _ in ordered),
        heads=tuple(0 if above is None else number[id(above)] for _, above in ordered),
        deprels=tuple(node.relation for node, _ in ordered),
        label=label,
        tags=tuple(node.tag for node, _ in ordered),
    )


def _split_adjectives(sentence: Sentence) -> Sentence:
    pieces = [_PIECES.get(word, (word,)) for word in sentence.words]
    word_ids = [word for word, parts in enumerate(pieces) for _ in parts]
    return sentence.with_tokens([piece for parts in pieces for piece in parts], word_ids)


class _Writer:
    """Writes one sentence; each method is a rule of the grammar."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.topic = rng.choice(_TOPICS)
        self.used: set[str] = set()

    def draw_chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def make_sentence(self, positive: bool) -> _Word:
        """One clause, or two: they agree, or one of them decides."""
        form = self.rng.choices(("alone", "and", "but", "conceded first", "conceded last"), (32, 20, 16, 16, 16))[0]
        if form == "alone":
            root = self.make_clause(positive, pronoun=self.draw_chance(0.25), reported=self.draw_chance(0.2))
        elif form in ("and", "but"):
            root = self.make_clause(positive == (form == "and"))
            second = self.make_clause(positive, relation="conj", reported=self.draw_chance(0.2))
            second.before[:0] = [_Word(",", ",", "punct"), _Word(form, "CC", "cc")]
            root.after.append(second)
        else:
            root = self.make_clause(positive, reported=self.draw_chance(0.2))
            conceded = self.make_clause(not positive, relation="advcl")
            conceded.before.insert(0, _Word(self.rng.choice(_SUBORDINATORS), "IN", "mark"))
            if form == "conceded first":
                conceded.after.append(_Word(",", ",", "punct"))
                root.before.insert(0, conceded)
            else:
                conceded.before.insert(0, _Word(",", ",", "punct"))
                root.after.append(conceded)
        root.after.append(_Word(".", ".", "punct"))
        return root

    def make_clause(
        self, positive: bool, *, relation: str = "root", pronoun: bool = False, reported: bool = False
    ) -> _Word:
        """A thing was good or bad, or: people said that it was."""
        plural = self.draw_chance(0.5)
        subject = _Word("they" if plural else "it", "PRP", "nsubj") if pronoun else self.make_thing(plural)
        predicate = self.make_predicate(positive, plural, "ccomp" if reported else relation)
        predicate.before.insert(0, subject)
        if not reported:
            return predicate
        predicate.before.insert(0, _Word("that", "IN", "mark"))
        return _Word(self.rng.choice(_REPORTS), "VBD", relation, [self.make_people("nsubj")[0]], [predicate])

    def make_predicate(self, positive: bool, plural: bool, relation: str) -> _Word:
        """The copula, an optional negation, and an adjective, optionally with a noun."""
        negated = self.draw_chance(0.4)
        adjective = self.make_adjective(positive != negated)
        if self.draw_chance(0.4):
            adverbs = _ADVERBS[:2] if negated else _ADVERBS  # nothing is "hardly quite good"
            adjective.before.append(_Word(self.rng.choice(adverbs), "RB", "advmod"))
        head = adjective
        if self.draw_chance(0.25):
            first = (adjective.before or [adjective])[0].form
            article = _Word("an" if first[0] in "aeiou" else "a", "DT", "det")
            head = _Word(self.rng.choice(_OUTCOMES), "NN", relation, [article, adjective])
        head.relation = relation
        if negated:
            head.before.insert(0, _Word(self.rng.choice(_NEGATORS), "RB", "advmod"))
        head.before.insert(0, _Word("were" if plural else "was", "VBD", "cop"))
        return head

    def make_thing(self, plural: bool) -> _Word:
        """The subject: alone, with a place, or with a relative clause that separates it from its verb."""
        noun = self.make_noun(self.topic.things, plural, "nsubj")
        form = self.rng.choices(("alone", "place", "relative", "participle"), (35, 15, 35, 15))[0]
        if form == "place":
            noun.after.append(self.make_place())
        elif form == "relative":
            noun.after.append(self.make_relative_clause())
        elif form == "participle":
            by, _ = self.make_people("obl")
            by.before.insert(0, _Word("by", "IN", "case"))
            noun.after.append(_Word(self.choose_verb()[3], "VBN", "acl", [], [by]))
        return noun

    def make_relative_clause(self) -> _Word:
        """Like "that the guests never ordered", in some tense; its negation negates no adjective."""
        people, plural = self.make_people("nsubj")
        base, third, past, participle = self.choose_verb()
        negator = [_Word(self.rng.choice(_NEGATORS[1:]), "RB", "advmod")] if self.draw_chance(0.35) else []
        tense = self.rng.choice(("present", "past", "perfect", "did not"))
        if tense == "present":
            verb = _Word(base, "VBP", "acl:relcl", negator) if plural else _Word(third, "VBZ", "acl:relcl", negator)
        elif tense == "past":
            verb = _Word(past, "VBD", "acl:relcl", negator)
        elif tense == "perfect":
            verb = _Word(participle, "VBN", "acl:relcl", [_Word("had", "VBD", "aux"), *negator])
        else:
            verb = _Word(base, "VB", "acl:relcl", [_Word("did", "VBD", "aux"), _Word("not", "RB", "advmod")])
        verb.before[:0] = [_Word("that", "WDT", "obj"), people]
        return verb

    def make_people(self, relation: str) -> tuple[_Word, bool]:
        """People who ordered or said something, and whether there are several; their adjectives do not decide."""
        plural = self.draw_chance(0.5)
        noun = self.make_noun(self.topic.people, plural, relation)
        if self.draw_chance(0.25):
            noun.before.append(_Word(self.rng.choice(_PEOPLE_ARE), "JJ", "amod"))
        if self.draw_chance(0.2):
            noun.after.append(self.make_place())
        return noun, plural

    def make_place(self) -> _Word:
        place = self.make_noun(_PLACES, self.draw_chance(0.5), "nmod")
        place.before.insert(0, _Word(self.rng.choice(_PREPOSITIONS), "IN", "case"))
        return place

    def make_noun(self, nouns: tuple[tuple[str, str], ...], plural: bool, relation: str) -> _Word:
        forms = self.choose_unused(nouns)
        return _Word(forms[plural], "NNS" if plural else "NN", relation, [_Word("the", "DT", "det")])

    def choose_verb(self) -> tuple[str, str, str, str]:
        return self.choose_unused(self.topic.verbs)

    def make_adjective(self, praise: bool) -> _Word:
        return _Word(self.rng.choice(_PRAISE if praise else _BLAME).replace("|", ""), "JJ", "amod")

    def choose_unused(self, words: tuple[_Forms, ...]) -> _Forms:
        """Choose a word that is not yet in the sentence, so that no cook cooks."""
        forms = self.rng.choice([forms for forms in words if forms[0] not in self.used] or words)
        self.used.add(forms[0])
        return forms
