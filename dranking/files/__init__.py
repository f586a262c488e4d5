"""What every layer writes files with: commits, JSON, checksums, redaction, settings by name."""
