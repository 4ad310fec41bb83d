"""Views of the page, one JavaScript file each."""
