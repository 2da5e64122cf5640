"""Studies: variants × seeds of one recipe, compared fairly, ending in a verdict."""
