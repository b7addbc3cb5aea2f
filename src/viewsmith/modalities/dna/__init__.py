"""Sequences of letters: DNA and other alphabets."""
