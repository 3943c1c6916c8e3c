"""Why a settings file is left as it is."""

from carrel.core.errors import CarrelError


class BrokenFile(CarrelError):
    """The text is not what its format requires; the message says where."""


class NotSpliceable(CarrelError):
    """An entry cannot be added or removed without changing something else."""


class NotWritten(CarrelError):
    """A file is not written, or a command is not written into one; the message says what to do."""


class NotProved(CarrelError):
    """The server did not start, or did not answer as a host needs it."""
