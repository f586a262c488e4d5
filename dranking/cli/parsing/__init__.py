"""Parsing of commands by typer: numbers, places, groups and topics of options, the typed line."""
