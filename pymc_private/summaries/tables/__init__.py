"""Records of tables in any engine: columns, batches, and records in chunks of one shape."""
