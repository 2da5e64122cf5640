"""Masks: predicates that compose with & | ~, True = may attend; read, drawn, analysed."""
