"""The error of a broken constraint, apart from the driver: whoever writes knows it, with a store or without."""


class ConstraintViolated(Exception):
    """A statement broke a constraint of the schema; the transaction cannot go on."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.constraint = constraint
