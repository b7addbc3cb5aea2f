"""How losses of many pairs are computed: in chunks, as products, from batch means; no loss of their own."""
