"""Linear models and what linear estimators share."""
