"""PiNDA: learned noise."""
