"""The listed objects of a bucket, in the order of their URIs, and the children of its folders.

Which objects are listed is decided once for each list of the bucket, on the thread that took the list.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter

from carrel.buckets.bucket import BucketObject
from carrel.buckets.contents import ObjectTable
from carrel.core.cancellation import check_cancelled
from carrel.core.limits import MAX_URI_LENGTH
from carrel.core.model import FOLDER_TYPE, Annotations, Rank, Resource, Text
from carrel.core.record import Value
from carrel.core.uri import quote
from carrel.files import file_types
from carrel.providers.workspace.bucket_files import BucketFiles, FoundFolder
from carrel.providers.workspace.folders import entry_item
from carrel.providers.workspace.paths import prefix_of
from carrel.providers.workspace.policy import FolderRules


class ListedObject(Value, frozen=True, gc=False):
    """An object in a list: its URI, its name below the prefix, its type ("" if the name does not tell), its state."""

    uri: str
    name: str
    mime_type: str
    state: BucketObject


class BucketChild(Value, frozen=True):
    """A child of a folder: a file, or a folder without `listed`. `key` is its sort key."""

    key: str
    name: str
    uri: str
    listed: ListedObject | None


class BucketListing:
    """Lists one bucket."""

    def __init__(self, files: BucketFiles, max_listed_bytes: int) -> None:
        self._files = files
        self._max_listed_bytes = max_listed_bytes
        self._listed: list[ListedObject] = []
        self._uris: list[str] = []
        self._shallow: list[tuple[str, ListedObject]] = []

    def __len__(self) -> int:
        return len(self._listed)

    def prepare(self, table: ObjectTable) -> None:
        """Decide which objects of a new list are listed; raise `BucketFault` if an ignore file cannot be read."""
        self._files.policy.forget()
        listed = sorted(self._judged(table), key=lambda one: one.uri)
        shallow = sorted(((f"{one.name.count('/') + 1:04d}{one.uri}", one) for one in listed), key=itemgetter(0))
        self._listed, self._uris, self._shallow = listed, [one.uri for one in listed], shallow

    def _judged(self, table: ObjectTable) -> Iterator[ListedObject]:
        policy = self._files.policy
        rules: dict[str, FolderRules | None] = {"": policy.top()}
        for name in table.names:
            folder, _, last = name.rpartition("/")
            if last and (inside := self._rules_of(folder, rules)) is not None:
                listed = self._judge(inside, last, table.objects[name])
                if listed is not None:
                    yield listed

    def _rules_of(self, folder: str, known: dict[str, FolderRules | None]) -> FolderRules | None:
        """Return the rules of a folder; None if nothing in it is listed."""
        if folder not in known:
            above, _, last = folder.rpartition("/")
            outer = self._rules_of(above, known)
            may_enter = outer is not None and self._files.policy.may_list_below(outer, last)
            known[folder] = self._files.policy.enter(outer, last) if outer is not None and may_enter else None
        return known[folder]

    def _judge(self, rules: FolderRules, name: str, state: BucketObject) -> ListedObject | None:
        """Return an object as it is listed; None if it is not."""
        verdict = self._files.policy.judge_child(rules, name, is_folder=False)
        if verdict.reason or not verdict.is_listed or state.size > self._max_listed_bytes:
            return None
        uri = prefix_of(self._files.name, rules.segments) + quote(name)
        path = "/".join((*rules.segments, name))
        known = file_types.known_type(name)
        if known is None:
            # Objects are not read for a list, so an object of unknown type is listed until it has been read.
            kind = self._files.kind_of(path, state)
            known = ("", True) if kind is None else (file_types.type_of(name, is_text=kind.is_text), kind.is_text)
        if (verdict.needs_text and not known[1]) or len(uri) > MAX_URI_LENGTH:
            return None
        return ListedObject(uri, path, known[0], state)

    def files(self, after: str = "", begins: str = "") -> Iterator[Resource]:
        """Yield the listed objects after a URI whose URI starts with `begins`, in order."""
        listed, start = self._listed, max(bisect_right(self._uris, after), bisect_left(self._uris, begins))
        for one in islice(listed, start, None):
            if not one.uri.startswith(begins):
                break
            yield describe(one)

    def shallow_first(self) -> Iterator[Resource]:
        """Yield the listed objects, those in the top folders first."""
        return (describe(one, sort_key=key, rank=Rank.FILES) for key, one in self._shallow)

    def every(self) -> list[ListedObject]:
        """Return the listed objects."""
        return self._listed

    def find(self, uri: str) -> ListedObject | None:
        """Return a listed object by its URI."""
        listed, uris = self._listed, self._uris
        at = bisect_left(uris, uri)
        return listed[at] if at < len(listed) and listed[at].uri == uri else None

    def children(self, folder: FoundFolder, after: str = "", begun: str = "") -> list[BucketChild]:
        """Return the children of a folder after a sort key whose quoted name starts with `begun`."""
        rules = self._files.policy.rules_of(folder.segments).own
        found = [
            child for name, state in folder.table.children(folder.path) if (child := self._child(rules, name, state))
        ]
        files = {child.uri for child in found if child.listed is not None}
        shown = [
            # Where a file has the same name, only the closing slash tells the folder from it.
            child
            if child.listed or child.uri not in files
            else BucketChild(child.key, child.name, f"{child.uri}/", None)
            for child in found
            if child.key > after and child.key.startswith(begun)
        ]
        return sorted(shown, key=lambda child: child.key)

    def _child(self, rules: FolderRules, name: str, state: BucketObject | None) -> BucketChild | None:
        check_cancelled()
        key, uri = quote(name), prefix_of(self._files.name, rules.segments) + quote(name)
        if state is None:
            is_shown = self._files.policy.shows(rules, name) and len(uri) < MAX_URI_LENGTH
            return BucketChild(f"{key}/", name, uri, None) if is_shown else None
        listed = self._judge(rules, name, state)
        return None if listed is None else BucketChild(key, name, uri, listed)


def describe(one: ListedObject, *, sort_key: str = "", rank: Rank | None = None) -> Resource:
    """Return the resource of a listed object."""
    title = one.name.rpartition("/")[2]
    modified = Annotations((), None, one.state.modified_ms)
    return Resource(
        one.uri,
        one.name,
        "",
        one.mime_type,
        title=title,
        annotations=modified,
        size=one.state.size,
        sort_key=sort_key,
        rank=rank,
    )


def item_of(child: BucketChild) -> Text:
    """Return the item of a child in a folder that is read."""
    if child.listed is None:
        return Text("", FOLDER_TYPE, uri=child.uri)
    state = child.listed.state
    mime_type = child.listed.mime_type or file_types.UNKNOWN_TEXT
    return entry_item(child.uri, mime_type, state.size, state.etag, state.modified_ms)


def resource_of(child: BucketChild) -> Resource:
    """Return a child of a folder as an entry."""
    if child.listed is None:
        return Resource(child.uri, child.name, mime_type=FOLDER_TYPE, sort_key=child.key)
    state = child.listed.state
    modified = Annotations((), None, state.modified_ms)
    return Resource(
        child.uri,
        child.name,
        mime_type=child.listed.mime_type,
        annotations=modified,
        size=state.size,
        sort_key=child.key,
    )
