"""Reading files safely: encodings, archives, tables, downloads."""
