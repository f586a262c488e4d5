"""Features, grades and query ids of the same rows, whatever a source does between computations."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dranking.engine.dask_collections import as_dataset
from dranking.errors import DataError, UsageError

N = 600


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads"):
        yield


def anew(frame):
    """The rows in an order that is another one in every computation."""
    return frame.sample(frac=1, random_state=np.random.default_rng())


def frame_ordered_anew():
    """A dask DataFrame whose grade is three times its feature, with rows in no fixed order."""
    rng = np.random.default_rng(0)
    value = rng.permutation(N).astype(np.float64)
    frame = pd.DataFrame({"qid": rng.integers(0, 20, N), "x": value, "relevance": 3 * value})
    return dd.from_pandas(frame, npartitions=4, sort=False).map_partitions(anew)


SHUFFLED = {
    "sorted": lambda frame: frame.sort_values("qid"),
    "shuffled": lambda frame: frame.shuffle("qid"),
    "as it is": lambda frame: frame,
    "indexed": lambda frame: frame.set_index("qid", drop=False),
}
SAME_FRAME = {
    "names": lambda frame: (frame[["qid", "x", "relevance"]], "relevance", "qid"),
    "series": lambda frame: (frame[["x"]], frame["relevance"], frame["qid"]),
    "series that were computed on": lambda frame: (
        frame[["x"]] + 0,
        frame["relevance"] * 1,
        frame["qid"],
    ),
    "one persisted frame": lambda frame: SAME_FRAME["series"](frame.persist()),
    "one persisted frame by names": lambda frame: SAME_FRAME["names"](frame.persist()),
}


@pytest.mark.parametrize("order", SHUFFLED)
@pytest.mark.parametrize("form", SAME_FRAME)
def test_labels_of_other_rows(form, order):
    X, y, qid = SAME_FRAME[form](SHUFFLED[order](frame_ordered_anew().reset_index(drop=True)))
    dataset = as_dataset(X, y, qid=qid)
    assert dataset.n_documents == N
    for index in range(dataset.n_blocks):
        block = dataset.block(index)
        np.testing.assert_array_equal(block.relevance, 3 * block.features[:, 0])


def in_order_of_x(part):
    return part.sort_values("x", ascending=False)


def sorted_and_reset(part):
    return in_order_of_x(part).reset_index(drop=True)


ROW_BY_ROW = {
    "same filter of the frame": lambda f: SAME_FRAME["series"](f[f.relevance > 99]),
    "same filter of each": lambda f: (
        f[["x"]][f.relevance > 99],
        f.relevance[f.relevance > 99],
        f.qid[f.relevance > 99],
    ),
    "filters one after another": lambda f: SAME_FRAME["series"](f[f.x > 9][f.x < 500]),
    "one function of partitions": lambda f: SAME_FRAME["series"](f.map_partitions(in_order_of_x)),
    "one new index": lambda f: SAME_FRAME["series"](f.reset_index(drop=True)),
    "means and functions of numbers": lambda f: (
        f[["x"]] - f[["x"]].mean() * 0,
        (np.sqrt(f.relevance) ** 2).round().rename("grade"),
        f.qid.map({n: n + 1 for n in range(20)}, meta=("qid", int)),
    ),
    "sums so far": lambda f: (f[["x"]] + 0 * f[["x"]].cumsum(), f.relevance, f.qid),
}


@pytest.mark.parametrize("form", ROW_BY_ROW)
@pytest.mark.parametrize("order", ["sorted", "indexed"])
def test_labels_computed_row_by_row(form, order):
    """The index of the frames has equal labels for many rows."""
    frame = SHUFFLED[order](frame_ordered_anew().reset_index(drop=True))
    dataset = as_dataset(*ROW_BY_ROW[form](frame)[:2], qid=ROW_BY_ROW[form](frame)[2])
    for index in range(dataset.n_blocks):
        block = dataset.block(index)
        np.testing.assert_array_equal(block.relevance, 3 * block.features[:, 0])


def test_the_index_as_query_ids():
    frame = frame_ordered_anew().set_index("qid")
    dataset = as_dataset(frame[["x"]], frame["relevance"], qid=frame.index)
    assert dataset.query_ids().to_pylist() == list(range(20))
    block = dataset.block(0)
    np.testing.assert_array_equal(block.relevance, 3 * block.features[:, 0])


OF_OTHER_ROWS = {
    "X reset": lambda f: (f[["x"]].reset_index(drop=True), f.relevance),
    "y reset": lambda f: (f[["x"]], f.relevance.reset_index(drop=True)),
    "both reset": lambda f: (
        f[["x"]].reset_index(drop=True),
        f.relevance.reset_index(drop=True),
    ),
    "X sorted in partitions": lambda f: (f[["x"]].map_partitions(in_order_of_x), f.relevance),
    "X sorted in partitions and reset": lambda f: (
        f[["x"]].map_partitions(sorted_and_reset),
        f.relevance,
    ),
    "y by a function of partitions": lambda f: (
        f[["x"]],
        f.map_partitions(lambda p: p.sort_values("x").relevance, meta=("relevance", float)),
    ),
    "X filtered": lambda f: (f[["x"]][f.x > 9], f.relevance),
    "other filters": lambda f: (f[["x"]][f.x > 9], f.relevance[f.x < 590]),
    "a further step on X": lambda f: (f[["x"]][f.x > 9].dropna(), f.relevance[f.x > 9]),
    "other sorts": lambda f: (f.sort_values("x")[["x"]], f.sort_values("relevance").relevance),
    "other largest": lambda f: (
        f.nlargest(50, "x")[["x"]],
        f.nlargest(50, "qid").relevance,
    ),
    "columns of several rows": lambda f: (f[["x"]], f.relevance + f.relevance[f.x > 9]),
}


@pytest.mark.parametrize("form", OF_OTHER_ROWS)
@pytest.mark.parametrize("order", ["sorted", "as it is", "indexed"])
def test_labels_of_other_rows_are_refused(form, order):
    frame = SHUFFLED[order](frame_ordered_anew())
    X, y = OF_OTHER_ROWS[form](frame)
    with pytest.raises(UsageError, match=r"row by row; .* fit\(ddf, y='relevance', qid='qid'\)"):
        as_dataset(X, y, qid=frame.qid)


def test_an_index_that_differs_is_refused():
    frame = frame_ordered_anew()
    with pytest.raises(UsageError, match=r"index of y or qid differs .* fit\(ddf, y='relevance'"):
        as_dataset(frame[["x"]], frame.relevance.rename(lambda label: label + 1), qid=frame.qid)


APART = {
    "values": lambda s: s.values,
    "to_dask_array": lambda s: s.to_dask_array(lengths=True),
    "computed on": lambda s: s.to_dask_array(lengths=True) * 1,
    "persisted": lambda s: s.values.persist(),
    "persisted and computed on": lambda s: (s.to_dask_array(lengths=True) * 1).persist(),
    "series persisted apart": lambda s: s.persist(),
}


@pytest.mark.parametrize("form", APART)
def test_labels_that_may_be_of_other_rows_are_refused(form):
    frame, make = frame_ordered_anew().sort_values("qid"), APART[form]
    with pytest.raises(UsageError, match=r"fit\(ddf, y='relevance', qid='qid'\)"):
        as_dataset(make(frame[["x"]]), make(frame["relevance"]), qid=make(frame["qid"]))


def from_map(folder):
    return dd.from_map(load_in_any_order, sorted(folder.iterdir()), meta=META)


def load_in_any_order(file):
    return anew(pd.read_parquet(file))


META = pd.DataFrame({"qid": [0], "x": [0.0], "relevance": [0.0]}).iloc[:0]
SOURCES = {
    "from_pandas": lambda folder: frame_ordered_anew(),
    "from_pandas, sorted": lambda folder: frame_ordered_anew().sort_values("qid"),
    "from_map": from_map,
    "from_map, sorted": lambda folder: from_map(folder).sort_values("qid"),
    "from_delayed": lambda folder: dd.from_delayed(
        [dask.delayed(load_in_any_order)(file) for file in sorted(folder.iterdir())], meta=META
    ),
    "read_parquet": lambda folder: dd.read_parquet(folder).map_partitions(anew),
    "read_parquet, shuffled": lambda folder: (
        dd.read_parquet(folder).map_partitions(anew).shuffle("qid")
    ),
    "read_csv": lambda folder: dd.read_csv(folder.parent / "rows.csv").map_partitions(anew),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of a DataFrame whose grade is three times its feature."""
    folder = tmp_path_factory.mktemp("files") / "parquet"
    folder.mkdir()
    rows = frame_ordered_anew().compute()
    rows.to_csv(folder.parent / "rows.csv", index=False)
    for number in range(4):
        part = rows[number * N // 4 : (number + 1) * N // 4]
        part.to_parquet(folder / f"{number}.parquet", index=False)
    return folder


def joined_chunks(pieces, shape, function=np.asarray):
    chunks = [da.from_delayed(dask.delayed(function)(each), shape, float) for each in pieces]
    return da.concatenate(chunks, allow_unknown_chunksizes=True)


def of_bag(part, shape):
    pieces = part.to_bag().to_delayed()
    return joined_chunks(pieces, shape, lambda rows: np.reshape(list(rows), (-1, *shape[1:])))


LOWERED = {
    "to_delayed": lambda part, shape: joined_chunks(part.to_delayed(), shape),
    "map_partitions": lambda part, shape: part.map_partitions(
        np.asarray, meta=np.empty((0, *shape[1:]))
    ),
    "map_partitions, optimised": lambda part, shape: joined_chunks(
        part.map_partitions(np.asarray, meta=np.empty((0, *shape[1:]))).to_delayed().ravel(), shape
    ),
    "bag": of_bag,
}


@pytest.mark.parametrize("form", LOWERED)
@pytest.mark.parametrize("source", SOURCES)
def test_parts_that_were_lowered_apart_are_refused(source, form, folder):
    """Of every source, and however the parts of the frame became arrays: fused names differ."""
    frame, make = SOURCES[source](folder), LOWERED[form]
    X = make(frame[["x"]], (np.nan, 1))
    y, qid = make(frame["relevance"], (np.nan,)), make(frame["qid"], (np.nan,))
    with pytest.raises(UsageError, match=r"X comes out of a DataFrame .* fit\(ddf, y='relevance'"):
        as_dataset(X, y, qid=qid)
    with pytest.raises(UsageError, match="X comes out of a DataFrame"):
        as_dataset(X, np.zeros(N), qid=np.zeros(N, dtype=int))
    with pytest.raises(UsageError, match="y comes out of a DataFrame"):
        as_dataset(np.zeros((N, 1)), y, qid=np.zeros(N, dtype=int))
    with pytest.raises(UsageError, match="query_weights comes out of a DataFrame"):
        as_dataset(da.zeros((N, 1)), np.zeros(N), qid=np.zeros(N, dtype=int), query_weights=y)


@pytest.mark.parametrize("source", SOURCES)
def test_steps_that_one_part_has_alone_are_refused(source, folder):
    """The parts share the partitions that were read, and each has an order of its own."""
    frame = SOURCES[source](folder)
    X, y = frame.map_partitions(anew)[["x"]], frame.map_partitions(lambda p: anew(p)).relevance
    lowered = [
        joined_chunks(part.to_delayed(optimize_graph=False), shape)
        for part, shape in ((X, (np.nan, 1)), (y, (np.nan,)), (frame.qid, (np.nan,)))
    ]
    with pytest.raises(UsageError, match="X comes out of a DataFrame"):
        as_dataset(lowered[0], lowered[1], qid=lowered[2])


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's reader of parquet uses it
@pytest.mark.parametrize("source", SOURCES)
def test_columns_of_one_array_of_a_frame_are_the_same_rows(source, folder):
    whole = SOURCES[source](folder)[["x", "relevance", "qid"]]
    array = whole.map_partitions(np.asarray, meta=np.empty((0, 3)))
    dataset = as_dataset(array[:, :1], array[:, 1], qid=array[:, 2].astype(int))
    assert dataset.n_documents == N
    for index in range(dataset.n_blocks):
        block = dataset.block(index)
        np.testing.assert_array_equal(block.relevance, 3 * block.features[:, 0])


def test_arrays_without_frames_are_taken(tmp_path):
    """Chunks of one dimension have keys as partitions have."""
    np.save(tmp_path / "y.npy", Y)
    da.to_npy_stack(str(tmp_path / "stack"), da.from_array(Y, chunks=3))
    da.to_zarr(da.from_array(Y, chunks=3), str(tmp_path / "y.zarr"))
    parts = [dask.delayed(Y.__getitem__)(slice(at, at + 3)) for at in range(0, 12, 3)]
    grades = [
        da.from_npy_stack(str(tmp_path / "stack")),
        da.from_zarr(str(tmp_path / "y.zarr")),
        da.from_array(np.load(tmp_path / "y.npy", mmap_mode="r"), chunks=5),
        da.arange(12, chunks=5) % 3.0,
        da.map_blocks(
            lambda block_info: Y[slice(*block_info[None]["array-location"][0])],
            chunks=((4, 8),),
            dtype=float,
        ),
        da.concatenate([da.from_delayed(part, (3,), float) for part in parts]),
        joined_chunks(da.from_array(Y, chunks=4).to_delayed(), (4,)),
        da.from_array(Y[::-1], chunks=5)[::-1].rechunk(4),
        da.from_array(np.diff(Y, prepend=0), chunks=1).cumsum(axis=0),
    ]
    X_lazy = da.random.RandomState(0).random((12, 2), chunks=(4, 2)) * 0 + da.from_array(X)
    for y in grades:
        is_right(of_arrays(X_lazy, y, da.from_array(QIDS, chunks=4)))


def test_labels_of_another_frame_are_refused():
    frame = frame_ordered_anew()
    other = frame_ordered_anew().repartition(npartitions=2)
    for y in (
        other["relevance"],
        frame["relevance"].compute(),
        frame["relevance"].compute().values,
    ):
        with pytest.raises(UsageError, match="neither a column"):
            as_dataset(frame[["x"]], y, qid=frame["qid"])
    with pytest.raises(UsageError, match="comes out of a DataFrame"):
        as_dataset(np.zeros((N, 1)), frame["relevance"], qid=np.zeros(N, dtype=int))


X = np.arange(24, dtype=np.float32).reshape(12, 2) % 7
Y = np.arange(12) % 3.0
QIDS = np.repeat([5, 3, 9], 4)


def of_arrays(X=X, y=Y, qid=QIDS):
    return as_dataset(X, y, qid=qid)


def is_right(dataset):
    features = np.concatenate([dataset.block(b).features for b in range(dataset.n_blocks)])
    relevance = np.concatenate([dataset.block(b).relevance for b in range(dataset.n_blocks)])
    ids = np.repeat(*[[5, 3, 9], 4])
    assert dataset.query_ids().to_pylist() == [5, 3, 9]
    np.testing.assert_array_equal(features, X)
    np.testing.assert_array_equal(relevance, Y)
    assert len(ids) == dataset.n_documents


@pytest.mark.parametrize("chunks", [3, 5, 12])
def test_arrays_made_apart(chunks, tmp_path):
    stored = da.from_array(X, chunks=(4, 1))
    da.to_zarr(stored, str(tmp_path / "x.zarr"))
    lazy_y, lazy_qid = da.from_array(Y, chunks=chunks), da.from_array(QIDS, chunks=4)
    for given in (stored, stored.persist(), stored * 2 / 2, da.from_zarr(str(tmp_path / "x.zarr"))):
        is_right(of_arrays(given, lazy_y, lazy_qid))
        is_right(of_arrays(given, Y, lazy_qid))
        is_right(of_arrays(given, list(Y), pd.Series(QIDS)))
    is_right(of_arrays(X, lazy_y, lazy_qid))


def test_arrays_of_unknown_chunks():
    def filtered(values):
        wide = da.from_array(np.concatenate([values, values]), chunks=(5, *values.shape[1:]))
        return wide[da.from_array(np.arange(24) < 12, chunks=5)]

    assert np.isnan(filtered(X).chunks[0]).all()
    is_right(of_arrays(filtered(X), filtered(Y), filtered(QIDS)))
    is_right(of_arrays(filtered(X), Y, da.from_array(QIDS, chunks=7)))
    with pytest.raises(DataError, match="y has 11 entries for 12 rows"):
        of_arrays(filtered(X), Y[:-1])


def test_steps_that_arrays_share_are_computed_once():
    """A random step of the graph gives all parts the same values."""
    noise = da.from_array(X, chunks=(4, 2)).map_blocks(
        lambda block: block + np.random.default_rng().random(block.shape), dtype=np.float64
    )
    dataset = as_dataset(noise, noise[:, 0], qid=QIDS)
    block = dataset.block(0)
    np.testing.assert_array_equal(block.relevance.astype(np.float32), block.features[:, 0])


def test_the_index_may_hold_the_query_ids():
    frame = pd.DataFrame({"qid": QIDS, "relevance": Y, "a": X[:, 0], "b": X[:, 1]})
    collection = dd.from_pandas(frame.set_index("qid"), npartitions=3, sort=False)
    is_right(as_dataset(collection, "relevance", qid="qid"))


def test_what_is_missing_is_said_before_anything_is_computed():
    def fail(frame):
        raise AssertionError("computed")

    meta = pd.DataFrame({"qid": [1], "x": [1.0]})
    lazy = dd.from_pandas(meta, npartitions=1).map_partitions(fail, meta=meta)
    with pytest.raises(DataError, match="no column 'grade'"):
        as_dataset(lazy, "grade", qid="qid")
    with pytest.raises(UsageError, match="would become a feature"):
        as_dataset(lazy, lazy["x"], qid=lazy["x"])
    with pytest.raises(UsageError, match="array without columns"):
        as_dataset(da.from_array(X), "relevance", qid="qid")
    with pytest.raises(UsageError, match="qid is missing"):
        as_dataset(da.from_array(X), da.from_array(Y))


def test_a_persisted_frame_without_its_partitions(tmp_path):
    """Dask persists fewer partitions than the DataFrame names (issue 12488 of Dask)."""
    rng = np.random.default_rng(0)
    for part in range(4):
        names = ["x", "qid", "relevance", *(f"unread_{i}" for i in range(20))]
        rows = pd.DataFrame(rng.integers(0, 3, (30, len(names))), columns=names)
        rows.to_parquet(tmp_path / f"{part}.parquet")
    read = dd.read_parquet(str(tmp_path), columns=["x", "qid", "relevance"])
    broken = read.persist()
    with pytest.raises(TypeError):  # else Dask has mended it, and this check can go
        broken.repartition(npartitions=1).compute()
    with pytest.raises(DataError, match=r"names 4 partitions.*map_partitions\(lambda part: part\)"):
        as_dataset(broken, "relevance", qid="qid")
    whole = as_dataset(read.map_partitions(lambda part: part).persist(), "relevance", qid="qid")
    assert whole.n_documents == 120
