"""The density of one record: its nodes, predictors and scores, for many records at once."""
