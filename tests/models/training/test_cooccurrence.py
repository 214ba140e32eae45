import numpy as np

from graphattn.models.training._cooccurrence import ppmi_vectors


def dense_ppmi(texts, size):
    """PPMI by its definition, from counts of all ordered pairs within five positions."""
    counts = np.zeros((size, size))
    for text in texts:
        for i, first in enumerate(text):
            for j, second in enumerate(text):
                if i != j and abs(i - j) <= 5 and first > 2 and second > 2:
                    counts[first, second] += 1 / abs(i - j)
    words, contexts = counts.sum(1, keepdims=True), counts.sum(0) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        pmi = np.log(counts / (words * contexts / contexts.sum()))
    return np.where(np.isfinite(pmi), pmi, 0).clip(min=0)


def test_vectors_factorise_ppmi():
    rng = np.random.default_rng(0)
    texts = [rng.integers(3, 15, rng.integers(1, 12)) for _ in range(40)]
    vectors = ppmi_vectors(texts, 15, 14, seed=0).astype(float)
    matrix = dense_ppmi(texts, 15)
    left, values, _ = np.linalg.svd(matrix)
    rows = (left * np.sqrt(values))[3:, :14]
    gram, expected = vectors[3:] @ vectors[3:].T, rows @ rows.T
    np.testing.assert_allclose(gram / gram.max(), expected / expected.max(), atol=1e-4)
    np.testing.assert_allclose(vectors[3:].var(), 1, rtol=0.1)


def test_tokens_without_neighbours_are_random():
    vectors = ppmi_vectors([np.array([3]), np.array([4])], 6, 7, seed=0)
    assert vectors.shape == (6, 7)
    assert 0.5 < vectors.std() < 1.5
    np.testing.assert_array_equal(vectors, ppmi_vectors([np.array([3]), np.array([4])], 6, 7, seed=0))
