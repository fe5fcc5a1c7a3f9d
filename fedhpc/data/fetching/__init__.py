"""From an address to a file below FEDHPC_DATA: downloading, unpacking, and what was fetched remembered."""
