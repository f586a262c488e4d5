"""How typer parses a command: numbers, places, groups and topics of options, and what was typed."""
