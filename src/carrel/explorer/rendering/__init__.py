"""From what a read returned to HTML that is safe in a page: one module for each kind of content.

Everything here is a pure function. The text of a resource is foreign: it never becomes a tag, an attribute, an address
or a class that is not in `markup.ALLOWED`. Size, depth and time are bounded, whatever the text is.
"""
