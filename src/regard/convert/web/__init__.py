"""Export of a run as a web page that runs the model in the browser, without Python and without a network."""
