"""Changes of a translator's search."""

import pytest

from graphattn.exceptions import ConfigError
from graphattn.experiments.cli.prediction_options import apply_search_changes
from graphattn.models import SearchOptions


def test_changes_of_a_search():
    search = SearchOptions(beam=2)
    assert apply_search_changes(search, "") == search
    changed = apply_search_changes(search, "length-penalty = 1, max_length=none,sample=true,top_k=5")
    assert changed == SearchOptions(beam=2, length_penalty=1.0, sample=True, top_k=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beam", "--search: 'beam' is not valid; write OPTION=VALUE with one of: beam, length_penalty, "),
        ("width=3", "--search: 'width=3' is not valid; write OPTION=VALUE with one of: beam, length_penalty, "),
        ("beam=many", "--search: beam is 'many'; it must be a whole number"),
        ("beam=0", "--search: beam is 0; it must be at least 1"),
    ],
)
def test_invalid_changes(text, message):
    with pytest.raises(ConfigError) as caught:
        apply_search_changes(SearchOptions(), text)
    assert str(caught.value).startswith(message)
