"""The Lipschitz function ell(theta) of a record, its tail, and regions on which it is bounded."""
