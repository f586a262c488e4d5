"""From events to counts: events of one session together, and what counts once in a session."""
