"""Models that leave the house and come back: layouts of other libraries, each verified against that library."""
