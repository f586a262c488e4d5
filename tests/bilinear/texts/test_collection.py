"""Collections: what is stored is what was given, and what cannot be is refused."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from dranking.bilinear.texts.collection import check_same_words, load_collection
from dranking.bilinear.texts.make_collection import collection, text_collection
from dranking.bilinear.texts.preferences import preferences_from_table
from dranking.bilinear.texts.tfidf import TextVectorizer
from dranking.errors import DataError, UsageError
from dranking.files.json_files import sealed_json

TEXTS = ["The cat sat on a mat", "a dog and a cat", "", "dogs, dogs and space"]


def test_vectors_are_those_of_scikit_learn():
    made = text_collection(TEXTS, n_words=5, sublinear_tf=True, stop_words="english")
    peer = TfidfVectorizer(max_features=5, sublinear_tf=True, stop_words="english")
    wanted = peer.fit_transform(TEXTS).toarray()
    assert made.words == tuple(peer.get_feature_names_out())
    np.testing.assert_allclose(made.vectors.toarray(), wanted, rtol=1e-6)
    assert made.is_empty.tolist() == [False, False, True, False]
    later = text_collection(["a cat in space"], made.vectorizer)
    np.testing.assert_allclose(
        later.vectors.toarray(), peer.transform(["a cat in space"]).toarray(), rtol=1e-6
    )


@pytest.mark.parametrize("ids", [None, ["a", "b", "c", "d"]])
def test_saved_and_loaded(tmp_path, ids):
    made = text_collection(TEXTS, ids=ids, labels=["x", "y", "x", "y"])
    made.save(tmp_path / "docs")
    read = load_collection(tmp_path / "docs")
    assert (made.vectors != read.vectors).nnz == 0
    assert read.ids.equals(made.ids)
    assert read.classes.tolist() == [0, 1, 0, 1]
    assert (read.class_names, read.words) == (("x", "y"), made.words)
    again = text_collection(TEXTS, read.vectorizer)
    assert (made.vectors != again.vectors).nnz == 0
    with pytest.raises(UsageError, match="exists"):
        made.save(tmp_path / "docs")


def test_damage_is_found(tmp_path):
    text_collection(TEXTS).save(tmp_path / "docs")
    file = tmp_path / "docs" / "data.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged: data.npy \(has checksum"):
        load_collection(tmp_path / "docs")
    file.unlink()
    with pytest.raises(DataError, match=r"damaged: data.npy \(No such file"):
        load_collection(tmp_path / "docs")
    manifest = tmp_path / "docs" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_bytes(sealed_json({**content, "files": {"../secret.npy": "0"}}))
    with pytest.raises(DataError, match=r"files.../secret.npy.*should match"):
        load_collection(tmp_path / "docs")
    manifest.write_text(json.dumps({**content, "words": None}))
    with pytest.raises(DataError, match="'digest'"):
        load_collection(tmp_path / "docs")
    manifest.write_text(json.dumps({**content, "schema_version": 9}))
    with pytest.raises(DataError, match="schema 9"):
        load_collection(tmp_path / "docs")
    manifest.write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        load_collection(tmp_path / "docs")
    with pytest.raises(DataError, match="nowhere: does not exist"):
        load_collection(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vectors": [[0.0, np.nan]]}, "row 0 of the vectors has nan in column 1"),
        ({"vectors": [[1.0], [np.inf]]}, "row 1 of the vectors has inf"),
        ({"vectors": np.eye(2), "ids": [1]}, "ids has 1 entries but vectors has 2 rows"),
        ({"vectors": np.eye(2), "ids": [1, 1]}, "1 ids occur twice"),
        ({"vectors": np.eye(2), "ids": ["a", None]}, "1 documents have no id"),
        ({"vectors": np.eye(2), "labels": ["a", None]}, "1 documents have no label"),
        ({"vectors": np.eye(2), "words": ["a"]}, "words has 1 entries but vectors has 2 columns"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        collection(**arguments)


def test_what_is_given_is_not_changed():
    given = sparse.csr_array((np.array([1.0, 0.0], np.float32), [1, 0], [0, 2]), shape=(1, 2))
    made = collection(given)
    assert (made.vectors.nnz, given.nnz, given.indices.tolist()) == (1, 2, [1, 0])


def test_bad_text_is_refused():
    with pytest.raises(DataError, match=r"text 1 .* is None"):
        text_collection(["a text", None])
    with pytest.raises(DataError, match="no words were found"):
        text_collection(["", "!"])
    with pytest.raises(UsageError, match="n_words is 0"):
        TextVectorizer.fit(["a text"], n_words=0)


def test_dictionaries_must_match():
    one, other = text_collection(["cat dog"]), text_collection(["cat bird"])
    with pytest.raises(DataError, match=r"column 0 .*'cat'.*'bird'"):
        check_same_words(one, other)
    with pytest.raises(DataError, match="have 2 words and the documents 3"):
        check_same_words(one, text_collection(["cat dog bird"]))


def test_tuples_that_prefer_a_document_to_itself_are_left_out_and_counted():
    made = text_collection(["cat", "dog", "bird", ""], ids=list("abcd"))
    table = [("a", "b", "c"), ("a", "b", "b"), ("c", "a", "b"), ("a", "c", "d"), ("x", "a", "b")]
    found = preferences_from_table(made, made, *zip(*table, strict=True))
    assert found.n_excluded == 3
    tuples = zip(found.query, found.better, found.worse, strict=True)
    assert [tuple(map(int, each)) for each in tuples] == [(0, 1, 2), (2, 0, 1)]
