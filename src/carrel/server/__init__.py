"""Answer calls from a catalogue.

Resources and protocol meet here and nowhere else.
"""
