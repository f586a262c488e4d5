"""Starting clusters: on this machine, as batch jobs, or by a file of the user."""
