"""viewsmith.modalities.vectors."""
