"""One recipe becomes one run folder: prepare the text, train, measure, write down."""
