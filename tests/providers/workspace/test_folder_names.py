"""Which names a folder had."""

from carrel.providers.workspace.folder_names import Names


def test_a_name_is_known_by_its_kind_until_it_is_dropped() -> None:
    names = Names([("a", "file"), ("b", "folder")])

    assert (names.has("a", "file"), names.has("a", "link"), names.has("c", "file")) == (True, False, False)
    assert [names.put("a", "file"), names.put("c", "link"), names.put("c", "link")] == [True, False, True]
    assert [names.put("a", "folder"), names.has("a", "file"), names.has("a", "folder")] == [False, False, True]
    assert [names.drop("a"), names.drop("b"), names.drop("c"), names.drop("c")] == ["folder", "folder", "link", None]


def test_many_names_come_and_go_in_any_order() -> None:
    kept = [f"file {number}" for number in range(20_000)]
    names = Names(())

    assert not any(names.put(name, "file") for name in kept)
    assert all(names.has(name, "file") for name in kept)
    assert {names.drop(name) for name in reversed(kept)} == {"file"}
    assert not any(names.has(name, "file") for name in kept)
