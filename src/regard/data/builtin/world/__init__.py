"""A synthetic world of people and towns, and the data sets about it."""
