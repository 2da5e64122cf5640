"""Trainings that are started, stopped and resumed from the page."""
