"""Propensities of examination: given, stored, and harvested from interventions."""
