"""Options of the commands: those that several share, then a file for each group."""
