"""From events to counts: the events of each session become impressions and clicks of results."""
