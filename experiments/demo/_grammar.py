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
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from graphattn.builders._sentence import Sentence

LABELS = ("negative", "positive")
LONGEST = 40
"""Most tokens of a sentence, after words are split into sub-words."""

# A bar separates the sub-words of an adjective.
_PRAISE = (
    *"good great superb lovely fine charming pleasant impressive remarkable inspired".split(),
    *"un|forgettable un|spoiled joy|ful taste|ful flaw|less fault|less".split(),
)
_BLAME = (
    *"bad awful dreadful poor dull weak forgettable spoiled".split(),
    *"un|pleasant un|impressive un|remarkable un|inspired joy|less taste|less flaw|ed fault|y".split(),
)
_PEOPLE_ARE = (
    *"great lovely charming pleasant impressive inspired joyful".split(),
    *"awful dreadful dull unpleasant unimpressive uninspired joyless".split(),
)
_NEGATORS = ("not", "never", "hardly")
_SUBORDINATORS = ("although", "though", "while")
_ADVERBS = ("really", "truly", "quite")
_REPORTS = ("agreed", "felt", "thought", "said")
_OUTCOMES = ("choice", "surprise", "experience")
_PREPOSITIONS = ("from", "at")


def _split_forms(words: str) -> list[tuple[str, ...]]:
    """The forms of each word: of nouns singular and plural, of verbs base, third person, past and participle."""
    return [tuple(word.split("/")) for word in words.split()]


_PLACES = _split_forms("hotel/hotels market/markets village/villages festival/festivals")
_FOOD = {
    "places": _PLACES,
    "things": _split_forms(
        "soup/soups cake/cakes roast/roasts order/orders fish/fish salmon/salmon trout/trout shrimp/shrimp"
    ),
    "people": _split_forms("waiter/waiters guest/guests cook/cooks owner/owners"),
    "verbs": _split_forms(
        "order/orders/ordered/ordered cook/cooks/cooked/cooked roast/roasts/roasted/roasted "
        "praise/praises/praised/praised"
    ),
}
_STAGE = {
    "places": _PLACES,
    "things": _split_forms(  # series twice, to be as frequent as all fish
        "play/plays film/films show/shows review/reviews series/series series/series"
    ),
    "people": _split_forms("actor/actors critic/critics student/students director/directors"),
    "verbs": _split_forms(
        "film/films/filmed/filmed show/shows/showed/shown review/reviews/reviewed/reviewed "
        "praise/praises/praised/praised"
    ),
}
_PIECES = {word.replace("|", ""): tuple(word.split("|")) for word in (*_PRAISE, *_BLAME)}
_POLARITY = {word.replace("|", ""): words is _PRAISE for words in (_PRAISE, _BLAME) for word in words}


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
    sentences = _generate_distinct(random.Random(seed), subwords)
    return [next(sentences) for _ in range(count)]


def corpus(train: int, dev: int, test: int, *, seed: int) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """Generate the three parts of a corpus; no sentence is in two of them.

    Examples
    --------
    >>> [len(part) for part in corpus(60, 20, 20, seed=1)]
    [60, 20, 20]
    """
    sentences = generate(train + dev + test, seed=seed)
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
    clauses = " ".join(sentence.words[:-1]).split(" , ")
    deciding, choice = clauses[0], []
    for number, clause in enumerate(clauses):
        opening = clause.split()[0]
        if opening in ("and", "but"):
            deciding = clauses[opening == "but"]
            choice = [f'and what follows "{opening}" {"decides" if opening == "but" else "agrees"}']
        elif opening in _SUBORDINATORS:
            deciding = clauses[1 - number]
            choice = [f'and the clause with "{opening}" does not count']
    predicate = re.split(" (?:was|were) ", deciding)[1].split()
    adjective = next(word for word in predicate if word in _POLARITY)
    negators = [word for word in predicate if word in _NEGATORS]
    evidence = [f'"{adjective}" is {"praise" if _POLARITY[adjective] else "blame"}']
    evidence += [f'negated by "{negator}"' for negator in negators]
    return f"{LABELS[_POLARITY[adjective] != bool(negators)]}: {', '.join(evidence + choice)}"


@dataclass(slots=True)
class _Word:
    """A word of a tree, with its dependents before and after it in their order."""

    form: str
    tag: str
    relation: str
    before: list[_Word] = field(default_factory=list)
    after: list[_Word] = field(default_factory=list)

    def list_words(self, head: _Word | None = None) -> Iterator[tuple[_Word, _Word | None]]:
        """All words of the tree in the order of the sentence, each with its head."""
        for word in self.before:
            yield from word.list_words(self)
        yield self, head
        for word in self.after:
            yield from word.list_words(self)


def _generate_distinct(rng: random.Random, subwords: bool) -> Iterator[Sentence]:
    known: set[Sequence[str]] = set()
    while True:
        first = rng.random() < 0.5
        for positive in (first, not first):
            while True:
                whole = _make_sentence(_Writer(rng).write_sentence(positive), LABELS[positive])
                split = _split_adjectives(whole)
                if whole.tokens not in known and len(split) <= LONGEST:
                    break
            known.add(whole.tokens)
            yield split if subwords else whole


def _make_sentence(root: _Word, label: str) -> Sentence:
    words = list(root.list_words())
    numbers = {id(word): number for number, (word, _) in enumerate(words, start=1)}
    return Sentence(
        tokens=[word.form for word, _ in words],
        heads=[0 if head is None else numbers[id(head)] for _, head in words],
        deprels=[word.relation for word, _ in words],
        label=label,
        tags=[word.tag for word, _ in words],
    )


def _split_adjectives(sentence: Sentence) -> Sentence:
    pieces = [_PIECES.get(word, (word,)) for word in sentence.words]
    word_ids = [word for word, parts in enumerate(pieces) for _ in parts]
    return sentence.with_tokens([piece for parts in pieces for piece in parts], word_ids)


class _Writer:
    """Writes one sentence; each method is a rule of the grammar."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.topic = rng.choice((_FOOD, _STAGE))
        self.used: set[str] = set()

    def draw(self, probability: float) -> bool:
        return self.rng.random() < probability

    def draw_form(self, **weights: int) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def draw_unused(self, words: list[tuple[str, ...]]) -> tuple[str, ...]:
        """Choose a word that is not yet in the sentence, so that no cook cooks."""
        forms = self.rng.choice([forms for forms in words if forms[0] not in self.used] or words)
        self.used.add(forms[0])
        return forms

    def write_sentence(self, positive: bool) -> _Word:
        """One clause, or two: they agree, or one of them decides."""
        form = self.draw_form(alone=32, agreeing=20, opposed=16, conceded_first=16, conceded_last=16)
        if form == "alone":
            root = self.write_clause(positive, pronoun=self.draw(0.25), reported=self.draw(0.2))
        elif form in ("agreeing", "opposed"):
            root = self.write_clause(positive == (form == "agreeing"))
            second = self.write_clause(positive, "conj", reported=self.draw(0.2))
            second.before[:0] = [_Word(",", ",", "punct"), _Word("and" if form == "agreeing" else "but", "CC", "cc")]
            root.after.append(second)
        else:
            root = self.write_clause(positive, reported=self.draw(0.2))
            conceded = self.write_clause(not positive, "advcl")
            conceded.before.insert(0, _Word(self.rng.choice(_SUBORDINATORS), "IN", "mark"))
            if form == "conceded_first":
                conceded.after.append(_Word(",", ",", "punct"))
                root.before.insert(0, conceded)
            else:
                conceded.before.insert(0, _Word(",", ",", "punct"))
                root.after.append(conceded)
        root.after.append(_Word(".", ".", "punct"))
        return root

    def write_clause(
        self, positive: bool, relation: str = "root", *, pronoun: bool = False, reported: bool = False
    ) -> _Word:
        """A thing was good or bad, or: people said that it was."""
        plural = self.draw(0.5)
        subject = _Word("they" if plural else "it", "PRP", "nsubj") if pronoun else self.write_thing(plural)
        predicate = self.write_predicate(positive, plural, "ccomp" if reported else relation)
        predicate.before.insert(0, subject)
        if not reported:
            return predicate
        predicate.before.insert(0, _Word("that", "IN", "mark"))
        report = self.rng.choice(_REPORTS)
        return _Word(report, "VBD", relation, [self.write_people("nsubj")[0]], [predicate])

    def write_predicate(self, positive: bool, plural: bool, relation: str) -> _Word:
        """The copula, an optional negation, and an adjective, optionally with a noun."""
        negated = self.draw(0.4)
        words = _PRAISE if positive != negated else _BLAME
        adjective = _Word(self.rng.choice(words).replace("|", ""), "JJ", "amod")
        if self.draw(0.4):
            adverbs = _ADVERBS[:2] if negated else _ADVERBS  # nothing is "hardly quite good"
            adjective.before.append(_Word(self.rng.choice(adverbs), "RB", "advmod"))
        head = adjective
        if self.draw(0.25):
            first = (adjective.before or [adjective])[0].form
            article = _Word("an" if first[0] in "aeiou" else "a", "DT", "det")
            head = _Word(self.rng.choice(_OUTCOMES), "NN", relation, [article, adjective])
        head.relation = relation
        if negated:
            head.before.insert(0, _Word(self.rng.choice(_NEGATORS), "RB", "advmod"))
        head.before.insert(0, _Word("were" if plural else "was", "VBD", "cop"))
        return head

    def write_thing(self, plural: bool) -> _Word:
        """The subject: alone, with a place, or with a relative clause that separates it from its verb."""
        noun = self.write_noun("things", plural, "nsubj")
        form = self.draw_form(alone=35, place=15, relative=35, participle=15)
        if form == "place":
            noun.after.append(self.write_place())
        elif form == "relative":
            noun.after.append(self.write_relative_clause())
        elif form == "participle":
            agent, _ = self.write_people("obl")
            agent.before.insert(0, _Word("by", "IN", "case"))
            noun.after.append(_Word(self.draw_unused(self.topic["verbs"])[3], "VBN", "acl", [], [agent]))
        return noun

    def write_relative_clause(self) -> _Word:
        """Like "that the guests never ordered", in some tense; its negation negates no adjective."""
        people, plural = self.write_people("nsubj")
        base, third, past, participle = self.draw_unused(self.topic["verbs"])
        negator = [_Word(self.rng.choice(_NEGATORS[1:]), "RB", "advmod")] if self.draw(0.35) else []
        forms = {
            "present": (base, "VBP", negator) if plural else (third, "VBZ", negator),
            "past": (past, "VBD", negator),
            "perfect": (participle, "VBN", [_Word("had", "VBD", "aux"), *negator]),
            "did not": (base, "VB", [_Word("did", "VBD", "aux"), _Word("not", "RB", "advmod")]),
        }
        verb, tag, before = forms[self.rng.choice(list(forms))]
        return _Word(verb, tag, "acl:relcl", [_Word("that", "WDT", "obj"), people, *before])

    def write_people(self, relation: str) -> tuple[_Word, bool]:
        """People who ordered or said something, and whether there are several; their adjectives do not decide."""
        plural = self.draw(0.5)
        noun = self.write_noun("people", plural, relation)
        if self.draw(0.25):
            noun.before.append(_Word(self.rng.choice(_PEOPLE_ARE), "JJ", "amod"))
        if self.draw(0.2):
            noun.after.append(self.write_place())
        return noun, plural

    def write_place(self) -> _Word:
        place = self.write_noun("places", self.draw(0.5), "nmod")
        place.before.insert(0, _Word(self.rng.choice(_PREPOSITIONS), "IN", "case"))
        return place

    def write_noun(self, nouns: str, plural: bool, relation: str) -> _Word:
        forms = self.draw_unused(self.topic[nouns])
        return _Word(forms[plural], "NNS" if plural else "NN", relation, [_Word("the", "DT", "det")])
