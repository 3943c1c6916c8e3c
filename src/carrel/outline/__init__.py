"""From a text to its outline: its definitions, nested, each with its first and last line.

Code is read by tree-sitter, whose grammars are installed with the extra `outline`; Markdown, data and logs by a few
lines of our own. Nothing here knows a catalogue or a provider, opens a file or downloads anything. Time and memory
are bounded, whatever the text. A text without an outline says why.
"""
