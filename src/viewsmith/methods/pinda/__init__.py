"""viewsmith.methods.pinda."""
