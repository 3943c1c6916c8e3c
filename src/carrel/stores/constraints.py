"""The error for a broken constraint. It is separate from `session`, so that importing it does not import psycopg."""


class ConstraintViolated(Exception):
    """A statement broke a constraint of the schema; the transaction cannot go on."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.constraint = constraint
