import numpy as np
import pytest

from pipelines.benchmarks.quality import Field, Post, Rows, compared, post_rows

GROUPS = ("rec.autos", "rec.bikes", "sci.space")


@pytest.fixture(scope="module")
def posts():
    rng = np.random.default_rng(2)
    words = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(5) for j in range(8)]
    drawn = []
    for number in range(90):
        group = GROUPS[number % 3]
        own = words[10 * (number % 3) : 10 * (number % 3) + 20]
        subject = rng.choice(own, 3).tolist()
        drawn.append(Post(group, subject, " ".join(rng.choice(own, 30)) + f"\n> {number}?"))
    return drawn


def test_features_are_counted_by_hand():
    field = Field([["car", "red", "car"], ["red"], []])
    idf = np.log1p([2.5 / 1.5, 1.5 / 2.5])
    found = field.features(["car", "red"], 0)
    np.testing.assert_allclose(found[:4], [2, 1.0, 3, idf.sum()])
    np.testing.assert_allclose(found[4:9], [3, 1, 2, 1.5, 0.25])
    np.testing.assert_allclose(found[14:17], [2 * idf[0] + idf[1], idf[1], 2 * idf[0]])
    length = 3 / (5 / 3)
    weights = np.array([2, 1]) * 2.2 / (np.array([2, 1]) + 1.2 * (0.25 + 0.75 * length))
    assert found[19] == pytest.approx(idf @ weights)
    assert field.bm25(["car", "red"])[0] == pytest.approx(found[19])


def test_documents_share_words_with_the_query_and_are_graded_by_group(posts):
    rows = post_rows(posts, 12)
    assert set(rows.y) == {0, 1, 2}
    assert rows.sizes.sum() == len(rows.y)
    assert (rows.X[:, 0] + rows.X[:, 20] > 0).all()  # words of the query in a field
    assert len(np.unique(rows.qid)) == 12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_figures_name_the_peers(posts):
    rows = post_rows(posts, 24)
    is_test = rows.qid >= 12
    found = compared("posts", [(rows.where(~is_test), rows.where(is_test))], 1e-9)
    names = [each.name for each in found]
    assert names[:3] == [
        "posts: tune",
        "posts: largest number of terms",
        "posts: seconds of a search",
    ]
    assert {each.peer for each in found[3:]} == {"LightGBM, defaults", "LightGBM, early stopping"}


def test_rows_of_a_query_are_counted():
    rows = Rows(np.zeros((5, 1)), np.zeros(5), np.array([3, 3, 4, 7, 7]))
    assert rows.sizes.tolist() == [2, 1, 2]
