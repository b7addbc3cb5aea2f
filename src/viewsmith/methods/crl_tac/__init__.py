"""viewsmith.methods.crl_tac."""
