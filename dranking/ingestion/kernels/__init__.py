"""Reading of LETOR / SVMlight text as bytes.

`tokenizer` appends the rows of a chunk of LETOR text to arrays; `words` finds words and lines, and
`decimals` reads decimal numbers exactly.
"""
