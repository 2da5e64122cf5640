"""Ray engine: the trainings of a study on the nodes of a Ray cluster."""
