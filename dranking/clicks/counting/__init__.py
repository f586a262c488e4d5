"""Building click stores from logs: the plan, the tasks, and what a build found."""
