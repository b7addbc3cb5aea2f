"""Discovery: the parts that recur across samples, and where they are."""
