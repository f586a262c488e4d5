"""The gate: rules (`gate`), the test of a night, and what the ledger leaves to it."""
