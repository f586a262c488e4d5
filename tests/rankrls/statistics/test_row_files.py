"""Files of rows: compressed rows, stored rows, and damage."""

import numpy as np
import pytest

from dranking.files.checksums import DamagedFileError
from dranking.rankrls.statistics.row_files import RowFile, write_rows


def test_rows_that_compress_are_decoded_others_are_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(40, 30)), np.zeros((40, 30)), np.arange(1200.0).reshape(40, 30)]
    file = tmp_path / "rows"
    index_checksum = write_rows(file, rows)
    sizes = np.frombuffer(file.read_bytes()[-48:], "<u8").reshape(3, 2)[:, 0]
    assert sizes[0] == rows[0].nbytes
    assert (sizes[1:] < 0.8 * rows[0].nbytes).all()
    stored = RowFile(file, 3, (40, 30), index_checksum)
    for wanted in ([0, 1, 2], [2, 0], []):
        for row, found in zip(wanted, stored.read(wanted), strict=True):
            np.testing.assert_array_equal(found, rows[row])
    content = bytearray(file.read_bytes())
    for row, position in enumerate(np.cumsum(sizes) - sizes):
        broken = content.copy()
        broken[int(position) + 20] ^= 1
        file.write_bytes(broken)
        with pytest.raises(DamagedFileError, match=f"checksum of row {row} is wrong"):
            list(stored.read([0, 1, 2]))
    file.write_bytes(content)
    with pytest.raises(DamagedFileError, match="another size than it should have"):
        list(RowFile(file, 3, (40, 29), index_checksum).read([1]))
