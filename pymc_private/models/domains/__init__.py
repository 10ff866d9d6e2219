"""What a record could be: domains of private variables, and points of them."""
