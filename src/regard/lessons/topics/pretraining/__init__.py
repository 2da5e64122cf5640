"""Lessons on pretraining objectives."""
