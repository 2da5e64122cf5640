"""A generated world of people and places, and the data sets that tell of it."""
