"""The command reproduce: core hours of tables."""

from graphattn.experiments.papers._experiment import Experiment, Row
from graphattn.experiments.papers._reproduction import hours_table

CHANGES = {"encoder": {"layers": 2}}


def record(data_set, encoder, seconds, changes=None):
    return {"data_set": data_set, "encoder": encoder, "seed": 1, "seconds": seconds, "changes": changes}


def test_a_run_takes_as_long_as_the_most_similar_recorded_ones():
    rows = [
        *(record("books", "bilstm", seconds) for seconds in (3600, 7200, 72_000)),
        record("books", "bilstm", 36_000, CHANGES),
        {**record("mirrored-summation", "duo", 1800), "epochs": 5},
    ]
    first = Experiment(
        "some",
        "table 1",
        "",
        (
            Row("the same", "books", "bilstm"),  # 2 hours
            Row("changed", "books", "bilstm", CHANGES),  # 10 hours
            Row("another domain", "dvd", "bilstm+star"),  # the median of four: 6 hours
            Row("another encoder", "mirrored-summation", "bilstm", CHANGES),  # half an hour
            Row("longer", "mirrored-summation", "duo", {"training": {"epochs": 10}}),  # an hour
            Row("unknown", "sick", "bilstm"),
        ),
    )
    second = Experiment("some", "figure 2", "", (Row("shared", "books", "bilstm"), Row("own", "toys", "bilstm")))
    assert hours_table([first, second], rows, seeds=2).splitlines() == [
        "| paper | table | runs | not timed | core hours |",
        "|---|---|---|---|---|",
        "| some | table 1 | 12 | 2 | 39.0 |",
        "| some | figure 2 | 2 | 0 | 12.0 |",
    ]
