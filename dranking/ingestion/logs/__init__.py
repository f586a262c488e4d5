"""Feature logs of search engines, and rows with nested features, as JSON.

`values` yields the JSON values of a file with their lines, `documents` finds the documents in a
value, whichever engine wrote it, `features` the numbers of a document. `rows` makes tables of the
documents of a range of a file, and brings tables with other features to one form.
"""

__all__: list[str] = []
