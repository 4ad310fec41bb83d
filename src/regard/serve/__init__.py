"""HTTP server of trained runs: predictions, inspections and the explorer page, and the Python client."""
