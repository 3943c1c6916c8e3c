"""Open files that may be opened, and no others: beneath a folder handle, without secret names."""
