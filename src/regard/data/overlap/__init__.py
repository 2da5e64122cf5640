"""What a data set lets a model get right without learning: rows that held-out splits share with
training, labels that contradict each other or stand in the row, and sources that straddle splits.
"""
