"""viewsmith.methods.genview."""
