"""Sequences: records that several factor rows read, and the identity of rows.

`windows` takes factors of neighboring records apart; `row_identity` tells whether rows of a graph
are all computed by one expression.
"""
