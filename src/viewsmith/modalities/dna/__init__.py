"""viewsmith.modalities.dna."""
