"""The paper's exhibits, from settings files: a client of the library."""
