"""Masks: predicates that compose with & | ~, True = may attend; parsed, drawn, analysed."""
