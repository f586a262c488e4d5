"""Features, grades and query ids of the same rows, whatever a source does between computations."""

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.errors import DataError, UsageError
from dranking.ingestion.dask_collections import as_dataset

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
NAMED = {
    "columns": lambda frame: frame[["qid", "x", "relevance"]],
    "assigned": lambda frame: frame.assign(relevance=frame["x"] * 3, x=frame["x"] + 0),
    "filtered": lambda frame: frame[frame.relevance > 99][frame.x < 500],
    "a function of partitions": lambda frame: frame.map_partitions(in_order_of_x),
    "persisted": lambda frame: frame.persist(),
}


def in_order_of_x(part):
    return part.sort_values("x", ascending=False)


@pytest.mark.parametrize("order", SHUFFLED)
@pytest.mark.parametrize("form", NAMED)
def test_named_columns_are_of_the_same_rows(form, order):
    frame = NAMED[form](SHUFFLED[order](frame_ordered_anew().reset_index(drop=True)))
    are_of_the_same_rows(as_dataset(frame, "relevance", qid="qid"))


def are_of_the_same_rows(dataset):
    assert 0 < dataset.n_documents <= N
    for block in dataset.read_blocks():
        np.testing.assert_array_equal(block.relevance, 3 * block.features[:, 0])


BESIDE = {
    "a series of the frame": lambda frame: frame.relevance,
    "a series of another frame": lambda frame: frame_ordered_anew().relevance,
    "an index": lambda frame: frame.index,
    "a pandas series": lambda frame: frame.relevance.compute(),
    "an array": lambda frame: np.zeros(N),
    "a dask array": lambda frame: da.from_array(np.zeros(N), chunks=50),
}


@pytest.mark.parametrize("form", BESIDE)
def test_values_beside_a_frame_are_refused(form):
    """A series of the frame may belong to other rows by the time when it is computed."""
    frame, value = frame_ordered_anew(), BESIDE[form](frame_ordered_anew())
    line = r"fit\(ddf\.assign\(y=\.\.\.\), y='y', qid='qid'\)"
    with pytest.raises(UsageError, match=f"^y stands beside .*{line}"):
        as_dataset(frame, value, qid="qid")
    with pytest.raises(UsageError, match=f"^qid stands beside .*{line}"):
        as_dataset(frame, "relevance", qid=value)
    with pytest.raises(UsageError, match=f"^y stands beside .*{line}"):
        dr.RankRLS().fit(frame[["x"]], value, qid=value)


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


def optimised(part, shape):
    """Names of fused steps differ from those of the frame."""
    array = part.map_partitions(np.asarray, meta=np.empty((0, *shape[1:])))
    return joined_chunks(array.to_delayed().ravel(), shape)


def persisted(part, shape):
    """The name of the step is that of `from_array`."""
    made = part.map_partitions(np.array, meta=np.empty((0, *shape[1:])))
    return made.persist().compute_chunk_sizes()


OF_FRAMES = {
    "to_delayed": lambda part, shape: joined_chunks(part.to_delayed(), shape),
    "map_partitions": lambda part, shape: part.map_partitions(
        np.asarray, meta=np.empty((0, *shape[1:]))
    ),
    "map_partitions, named as from_array": lambda part, shape: part.map_partitions(
        np.array, meta=np.empty((0, *shape[1:]))
    ),
    "map_partitions, optimised": optimised,
    "delayed": lambda part, shape: da.from_delayed(
        dask.delayed(np.asarray)(part), (N, *shape[1:]), float
    ),
    "computed in a delayed function": lambda part, shape: da.from_delayed(
        dask.delayed(lambda: np.asarray(part.compute()))(), (N, *shape[1:]), float
    ),
    "values": lambda part, shape: part.values,
    "to_dask_array": lambda part, shape: part.to_dask_array(lengths=True),
    "to_dask_array and a step": lambda part, shape: part.to_dask_array(lengths=True) * 1,
    "persisted": persisted,
    "bag": of_bag,
}


EVERY_SOURCE_AND_FORM = [
    *((source, "map_partitions") for source in SOURCES),
    *(("read_parquet", form) for form in OF_FRAMES if form != "map_partitions"),
]


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's reader of parquet uses it
@pytest.mark.parametrize(("source", "form"), EVERY_SOURCE_AND_FORM)
def test_arrays_of_frames_are_refused(source, form, folder):
    frame, make = SOURCES[source](folder), OF_FRAMES[form]
    X = make(frame[["x"]], (np.nan, 1))
    y, qid = make(frame["relevance"], (np.nan,)), make(frame["qid"], (np.nan,))
    with pytest.raises(UsageError, match=r"^X is made of .* fit\(ddf, y='relevance', qid='qid'\)"):
        as_dataset(X, y, qid=qid)
    with pytest.raises(UsageError, match=r"^X is made of"):
        as_dataset(X, np.zeros(N), qid=np.zeros(N, dtype=int))
    with pytest.raises(UsageError, match=r"^y is made of"):
        as_dataset(np.zeros((N, 1)), y, qid=np.zeros(N, dtype=int))
    with pytest.raises(UsageError, match=r"^qid is made of"):
        as_dataset(da.from_array(np.zeros((N, 1))), np.zeros(N), qid=qid)


PLACES = np.arange(12)


def loaded(part):
    """Rows in another order each time, as a reader gives them that has no fixed order."""
    return np.random.default_rng().permutation(Y[part : part + 4])


OF_UNKNOWN_ROWS = {
    "delayed functions": lambda: joined_chunks([dask.delayed(loaded)(n) for n in (0, 4, 8)], (4,)),
    "a function of block numbers": lambda: da.map_blocks(
        lambda block_info: loaded(4 * block_info[None]["chunk-location"][0]),
        chunks=((4, 4, 4),),
        dtype=float,
    ),
    "a bag": lambda: joined_chunks(
        dask.bag.from_sequence(Y, npartitions=3).to_delayed(), (4,), lambda rows: loaded(0)
    ),
    "persisted chunks": lambda: (da.from_array(Y, chunks=4) * 1).persist(),
    "a mask of unknown rows": lambda: da.from_array(Y, chunks=4)[
        OF_UNKNOWN_ROWS["delayed functions"]() > -1
    ],
    "a series": lambda: dd.from_pandas(pd.Series(Y), npartitions=2),
}


@pytest.mark.parametrize("form", OF_UNKNOWN_ROWS)
def test_arrays_of_unknown_rows_are_refused(form):
    """Three of them were taken while a list named the steps that are not allowed."""
    y = OF_UNKNOWN_ROWS[form]()
    for features, qid in ((X, QIDS), (da.from_array(X, chunks=(4, 2)), da.from_array(QIDS))):
        with pytest.raises(UsageError, match=r"^y is made of .*from_array\(array\), .*from_zarr"):
            as_dataset(features, y, qid=qid)


def test_known_arrays_are_taken(tmp_path):
    """Arrays in memory, memory maps and stored chunks, with steps of Dask behind them."""
    np.save(tmp_path / "y.npy", Y)
    da.to_npy_stack(str(tmp_path / "stack"), da.from_array(Y, chunks=3))
    da.to_zarr(da.from_array(Y, chunks=3), str(tmp_path / "y.zarr"))
    masked = np.ma.masked_array(np.append(Y[:6], Y[:6]), np.arange(12) >= 6)
    grades = [
        da.from_npy_stack(str(tmp_path / "stack")),
        da.from_zarr(str(tmp_path / "y.zarr")),
        da.from_zarr(str(tmp_path / "y.zarr")).persist(),
        da.from_zarr(str(tmp_path / "y.zarr"), inline_array=True) * 2 / 2,
        da.from_array(np.load(tmp_path / "y.npy", mmap_mode="r"), chunks=5),
        da.from_array(Y, chunks=5).persist(),
        da.asarray(Y),
        da.from_array(list(Y), chunks=4),
        da.from_array(Y[::-1], chunks=5)[::-1].rechunk(4),
        da.from_array(Y, chunks=3)[np.argsort(PLACES)],
        da.from_array(np.append(Y, Y), chunks=5)[da.from_array(np.arange(24) < 12, chunks=5)],
        da.from_array(np.diff(Y, prepend=0), chunks=1).cumsum(axis=0),
        da.concatenate([da.from_array(Y[:5]), da.from_array(Y[5:], chunks=3)]),
        da.where(da.from_array(PLACES, chunks=4) % 2 == 0, da.from_array(Y, chunks=4), Y),
        da.from_array(masked, chunks=4).map_blocks(lambda part: np.ma.filled(part, 0.0)) * 0 + Y,
        dr.to_dask_array(dr.from_arrays(X, Y, QIDS, max_documents=4))[1],
    ]
    for y in grades:
        is_right(of_arrays(da.from_array(X, chunks=(4, 1)), y, da.from_array(QIDS, chunks=4)))


@pytest.mark.cluster
def test_arrays_that_workers_hold(client, tmp_path):
    """Stored chunks, and blocks of a data set; a persisted array has lost what it was made of."""
    da.to_zarr(da.from_array(Y, chunks=3), str(tmp_path / "y.zarr"))
    stored = client.persist(da.from_zarr(str(tmp_path / "y.zarr")))
    features, qid = da.from_array(X, chunks=(4, 2)), da.from_array(QIDS, chunks=4)
    placed = as_dataset(features, stored, qid=qid, executor=client)
    is_right(as_dataset(*dr.to_dask_array(placed)[:2], qid=qid, executor=client))
    persisted = client.persist(da.from_array(Y, chunks=3))
    with pytest.raises(UsageError, match=r"^y is made of 'array-.*fit keeps the chunks on the wor"):
        as_dataset(features, persisted, qid=qid, executor=client)


def part_of_frame(number):
    rows = slice(4 * number, 4 * number + 4)
    return pd.DataFrame({"a": X[rows, 0], "b": X[rows, 1], "y": Y[rows], "qid": QIDS[rows]})


@pytest.mark.cluster
def test_a_frame_of_futures_that_workers_hold(client):
    """The graph of the frame names the futures, and does not contain them."""
    futures = client.map(part_of_frame, range(3))
    frame = dd.from_delayed(futures, meta=part_of_frame(0), verify_meta=False)
    is_right(as_dataset(frame, "y", qid="qid", executor=client))


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
    for frame in (broken, broken.assign(z=1.0), broken[broken.x > 0], broken.map_partitions(abs)):
        with pytest.raises(DataError, match=r"not stored [23] of.*map_partitions\(lambda part: p"):
            as_dataset(frame, "relevance", qid="qid")
    whole = as_dataset(read.map_partitions(lambda part: part).persist(), "relevance", qid="qid")
    assert whole.n_documents == 120
