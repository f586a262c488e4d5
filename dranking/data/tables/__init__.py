"""Tables and arrays as users have them, made into query blocks."""
