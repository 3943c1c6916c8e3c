"""What a caller may have meant: near misses, at a bounded price."""

from carrel.catalog import suggestions
from carrel.catalog.suggestions import near


def test_the_nearest_names_are_told_and_folders_too() -> None:
    known = ["workspace:///docs/guide.md", "workspace:///docs/guild.md", "workspace:///src/main.py"]
    assert near("workspace:///guide.md", known) == ["workspace:///docs/guide.md"]
    assert near("workspace:///docz/", known) == ["workspace:///docs/"]
    assert near("workspace:///docs/guide.md", known) == ["workspace:///docs/guild.md"], "never what was asked for"
    assert near("sage:///guide.md", known) == ["workspace:///docs/guide.md"], "the name decides, whatever the scheme"


def test_long_names_are_compared_by_their_beginning() -> None:
    long = "a" * suggestions.MOST_CHARACTERS
    known = [f"workspace:///{long}{'b' * 100}", "workspace:///other"]
    assert near(f"workspace:///{long}{'c' * 5_000}", known) == known[:1]
