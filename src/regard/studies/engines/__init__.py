"""Engines that run a study's trainings."""
