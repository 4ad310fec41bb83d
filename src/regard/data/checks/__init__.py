"""`regard data check`: detect the layout of a data set and report problems in it."""
