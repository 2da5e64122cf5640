"""The playground: trained models of the page's runs write, answer, and are looked into.

views (an address → a call) ─► methods (in a worker, which keeps the model) ─► runs.inspection
"""
