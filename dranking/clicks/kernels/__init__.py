"""Compiled reading of click logs.

`csv_states` finds where records of CSV end, by an automaton of four states whose maps of states
compose.
"""
