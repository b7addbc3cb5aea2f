"""viewsmith.modalities.images."""
