"""What estimators return and print: reports, probabilities, entities, and how numbers are written."""
