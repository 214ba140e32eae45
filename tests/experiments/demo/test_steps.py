"""The baselines of the demo, which use words only."""

from graphattn.builders import Sentence
from graphattn.experiments.demo._steps import bag_of_words_accuracy, frequent_tag_accuracy


def test_a_bag_of_words_ignores_order():
    train = [Sentence("not good but bad".split(), label="-"), Sentence("not bad but good".split(), label="+")] * 5
    assert bag_of_words_accuracy(train, train) == 50
    single_words = [Sentence(["good"], label="+"), Sentence(["bad"], label="-")] * 5
    assert bag_of_words_accuracy(single_words, [Sentence(["bad", "film"], label="-")]) == 100


def test_a_new_word_gets_the_most_frequent_tag():
    train = [Sentence("the dog saw the saw".split(), tags="DT NN VBD DT NN".split())]
    test = [Sentence("the unicorn".split(), tags="DT NN".split())]
    assert frequent_tag_accuracy(train, test) == 50, "ties of frequent tags go to the first"
