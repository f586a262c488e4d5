"""Reports: one HTML page that works offline, on a phone and on paper."""
