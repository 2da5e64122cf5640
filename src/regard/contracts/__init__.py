"""What every part owes, whoever wrote it: checked by the tests, and by `regard check` for yours."""
