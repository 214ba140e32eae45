"""``graphattn info``: what is told of a store, and what damage looks like."""

import pytest


@pytest.fixture(scope="module")
def store(graphattn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("info")
    rows = [
        '{"tokens": ["Dogs", "bark"], "heads": [2, 0], "deprels": ["nsubj", "root"], "tags": ["N", "V"]}',
        '{"tokens": ["a", "b", "c", "d", "e"], "label": "x"}',
        '{"tokens": []}',
    ]
    (folder / "a.jsonl").write_text("\n".join(rows) + "\n")
    graphattn("build", folder / "a.jsonl", "--relations", "window:3,all", "--out", folder / "s")
    return folder / "s"


def test_counts_lengths_edges_and_memory(graphattn, store):
    answer = graphattn("info", store, "--batch-size", "2")
    size = (store / "sentences" / "part-000000.parquet").stat().st_size
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == (
        f"{store}: a.jsonl\n"
        "sentences: 3 (1 parsed, 0 left out)\n"
        "words: 7\n"
        "tokens: 7 (2.3 a sentence, 5 at most)\n"
        f"size: {size:,} bytes in 1 shard ({size / 7:.2f} a token)\n"
        "\n"
        "tokens  sentences\n"
        "0               1  ########################################\n"
        "2-3             1  ########################################\n"
        "4-7             1  ########################################\n"
        "\n"
        "relation  edges  a sentence\n"
        "window:3     24         8.0\n"
        "all          46        15.3\n"
        "\n"
        "memory of a batch's graph, 2 sentences: 0.00 MB, 0.00 MB at most\n"
        "labels: x 1\n"
        "tags: N 1, V 1\n"
        "dependencies: nsubj 1, root 1\n"
    )


def test_damage_is_told(graphattn, store):
    path = store / "sentences" / "part-000000.parquet"
    whole = path.read_bytes()
    assert graphattn("info", store, "--check").out.endswith("\nall shards are as they were written\n")
    path.write_bytes(whole[:-1])
    answer = graphattn("info", store, "--check")
    path.write_bytes(whole)
    assert answer.out.endswith(
        f"\ndamaged: sentences/part-000000.parquet has {len(whole) - 1:,} bytes, {len(whole):,} were written\n"
    )
    assert (answer.code, answer.err) == (
        1,
        f"error: {store}: 1 of 1 shards are damaged. Run the same graphattn build again: it makes them anew.\n",
    )


def test_other_folders_are_refused(graphattn, tmp_path):
    answer = graphattn("info", tmp_path)
    assert (answer.code, answer.err) == (
        1, f"error: {tmp_path}: holds no store. Give a folder that graphattn build wrote.\n",
    )  # fmt: skip
