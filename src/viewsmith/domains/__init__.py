"""What a domain is: how its samples are read and checked, scaled, described and encoded."""
