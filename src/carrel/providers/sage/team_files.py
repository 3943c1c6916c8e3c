"""The memory in the team's store: documents named like the files of a Sage folder, and a mirror of them for reading."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from carrel.core.store_address import StoreAddress
from carrel.core.uri import quote
from carrel.providers.sage.file_writes import NameTaken, WriteFailed, numbered
from carrel.providers.sage.folder_files import Check, Compose, Path, index_text
from carrel.providers.sage.knowledge import INDEX_PATH
from carrel.stores.documents import DocumentMirror, DocumentWriter, writing_documents
from carrel.stores.shared import acquire, release

_SCHEMES = {"system": "system", "checkpoints": "checkpoint", "knowledge": "knowledge", "failures": "failure"}


class ItemVersions(Protocol):
    """Returns the ETags of items for the audit record: those that a reader gets."""

    def etag_before(self, kind: str, name: str) -> str | None:
        """Return the ETag of an item as the folder has it; None if there is none."""
        ...

    def etag_after(self, kind: str, name: str, data: bytes, index: bytes) -> str | None:
        """Return the ETag of an item whose file gets these bytes; `index` is the new index of knowledge."""
        ...


class TeamFiles:
    """Writes the memory of the team, and mirrors it in a private folder."""

    versions: ItemVersions

    def __init__(self, address: StoreAddress) -> None:
        """Take the address of a database. Nothing is connected yet."""
        self._database = acquire(address)
        self._mirror = DocumentMirror(self._database, "sage")
        self._is_closed = False

    @property
    def folder(self) -> str:
        """The folder with the memory as it was at the last `refresh`."""
        return self._mirror.path

    def refresh(self) -> None:
        """Bring the folder up to date; raise `StoreUnavailable`."""
        self._mirror.refresh()

    def close(self) -> None:
        """Remove the folder and release the database; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._mirror.close()
            release(self._database)

    def shown(self, path: Path) -> str:
        """Return the name of a document."""
        return "/".join(path)

    def make(self, *folder: str) -> list[Path]:
        """Do nothing: a document needs no folder."""
        del folder
        return []

    def create_numbered(self, folder: str, stem: str, compose: Compose, check: Check | None = None) -> str:
        """Write a new document and return its stem."""
        with self._writing(check) as writer:
            for free in numbered(stem):
                if writer.get(f"{folder}/{free}.md") is None:
                    self._put(writer, (folder, f"{free}.md"), compose(free), is_new=True)
                    return free
        raise WriteFailed("I/O error")

    def create(self, path: Path, data: bytes, check: Check | None = None) -> None:
        """Write a new document; raise `NameTaken` if there is one of that name."""
        with self._writing(check) as writer:
            if writer.get("/".join(path)) is not None:
                raise NameTaken
            self._put(writer, path, data, is_new=True)

    def replace(self, path: Path, data: bytes, check: Check | None = None) -> None:
        """Write a document in place of the old one."""
        with self._writing(check) as writer:
            self._put(writer, path, data)

    def restore(self, path: Path, data: bytes, modified_ns: int, index: bytes) -> None:
        """Write a document with the time of its last change; `index` is the index of knowledge that belongs to it."""
        with self._writing() as writer:
            known = writer.get("/".join(path))
            if known == data:  # only its time is another one
                writer.put("/".join(path), data, modified_ns)
                writer.session.report(uri_of(path))
            else:
                self._mirror.refresh_in(writer.session)  # the format of the ETags is set by a file, too
                self._put(writer, path, data, is_new=known is None, index=index, modified_ns=modified_ns)

    def put_indexed(self, path: Path, data: bytes, compose: Compose, check: Check | None = None) -> None:
        """Write a document and the index in one transaction."""
        name = "/".join(INDEX_PATH)
        with self._writing(check) as writer:
            known = writer.get(name) or b""
            made = compose(index_text(known, len(known)))
            self._put(writer, path, data, index=made)
            writer.put(name, made)

    @contextmanager
    def _writing(self, check: Check | None = None) -> Iterator[DocumentWriter]:
        """Yield the only writer, after a call of `check`; the mirror then has all committed documents."""
        with writing_documents(self._database, "sage") as writer:
            if check is not None:
                self._mirror.refresh_in(writer.session)
                check()
            yield writer

    def _put(
        self,
        writer: DocumentWriter,
        path: Path,
        data: bytes,
        *,
        is_new: bool = False,
        index: bytes = b"",
        modified_ns: int | None = None,
    ) -> None:
        """Write a document, and record it with the ETags of its item before and after."""
        kind, name = _item_of(path)
        before = None
        if not is_new:
            self._mirror.refresh_in(writer.session)
            before = self.versions.etag_before(kind, name)
        writer.put("/".join(path), data, modified_ns)
        writer.record(uri_of(path), before, self.versions.etag_after(kind, name, data, index))


def uri_of(path: Path) -> str:
    """Return the URI of the resource that a file belongs to."""
    kind, name = _item_of(path)
    return f"sage://{kind}/{quote(name, '/')}"


def _item_of(path: Path) -> tuple[str, str]:
    """Return the kind and the name of the item that a file belongs to."""
    kind = _SCHEMES.get(path[0], path[0])
    return kind, "/".join(path[1:]) if kind == "system" else path[-1].removesuffix(".md")
