"""What iterative trainings share."""
