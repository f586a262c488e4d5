"""Files that are shared by two directories because they never change."""

from __future__ import annotations

import errno
import os
import shutil

from dranking.files.places import Place, is_local
from dranking.files.reading import read_bytes
from dranking.files.requests import request
from dranking.files.writing.object_store import put

_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP}


def share_file(source: Place, target: Place) -> None:
    """Let a file that never changes stand at a second place too.

    On one local disk both are hard links to the same content, which takes no space; each stays when
    the other is deleted. Within an object store the store copies. Otherwise the content is read and
    written.

    Raises
    ------
    FileNotFoundError, DataError, TryAgainError
        If the file cannot be read, or a store refuses access or is out of reach.
    """
    if is_local(source) and is_local(target):
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(source, target)
    elif not is_local(source) and not is_local(target) and source.fs == target.fs:
        request(target, lambda: target.fs.cp_file(source.path, target.path))
    elif is_local(target):
        target.write_bytes(read_bytes(source))
    else:
        put(target, read_bytes(source))
