"""Reading of LETOR / SVMlight text and of CSV as bytes, and hashes of strings.

`tokenizer` appends the rows of a chunk of LETOR text to arrays; `words` finds words and lines, and
`decimals` reads decimal numbers exactly. `csv_states` finds where records of CSV end, by an
automaton of four states whose maps of states compose. `hashes` computes 64-bit hashes of strings,
which are equal on every machine, under a key.
"""
