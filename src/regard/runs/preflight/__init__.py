"""The pre-flight: what is refused or said before a model is built, and what a training costs."""
