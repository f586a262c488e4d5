"""The leave-query-out criterion."""
