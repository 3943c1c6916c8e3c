"""What is examined: the environment, the project's configuration and its desk, each looked at once, when first needed.

A mistake in a settings file does not hide other faults: the rest is examined as if the wrong setting were not there.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from carrel.app.app import Desk, index_rules, open_desk
from carrel.app.config import WITH, Config, configure
from carrel.connect.places import Surroundings, surroundings
from carrel.core.errors import CarrelError, ConfigError
from carrel.core.record import replace
from carrel.doctor.answers import Once, ProviderAnswer, ask_all
from carrel.doctor.host_files import HostFile, host_files
from carrel.doctor.index_state import IndexState, look_at
from carrel.doctor.mistakes import Mistake, SettingsFiles, read_settings
from carrel.files.userdirs import cache_folder, config_folder, state_folder
from carrel.search.location import index_folder
from carrel.stores.shared import examine

PATIENCE_S: Final = 15.0
"""How long a provider, a mount or an object has to answer: as long as a mount has to start."""

Flag = tuple[str, str, str]


class Setup:
    """The machine, user and project that are examined. Safe to use from several threads."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        named: str | None = None,
        flags: Sequence[Flag] = (),
        serve_words: Sequence[str] = (),
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`named` is the folder of --project; `serve_words` are the options with which the server is started."""
        self.environment = environment
        self.named = named
        self.flags = flags
        self.serve_words = tuple(serve_words)
        self.patience_s = patience_s
        self.python_version: tuple[int, ...] = sys.version_info[:3]
        self.prefix = sys.prefix
        self.now_s: Callable[[], float] = time.time
        self.free_of: Callable[[str], os.statvfs_result] = os.statvfs
        self._settings = Once(self._read_settings)
        self._configured = Once(self._configure)
        self._store_examined = Once(self._examine_store)
        self._opened = Once(self._open_desk)
        self._answered = Once(self._ask_all)
        self._hosts_seen = Once(lambda: host_files(self.surroundings))
        self._index_seen = Once(lambda: look_at(self.index_folder))
        self._until_closed = contextlib.ExitStack()

    # The user's folders

    @property
    def home(self) -> str:
        """The home folder."""
        return self.environment.get("HOME") or os.path.expanduser("~")

    @property
    def folders(self) -> dict[str, str]:
        """The user's folders in which Carrel writes, by what it keeps there."""
        cache = cache_folder(self.environment)
        found = {"settings": config_folder(self.environment), "tokens and trust": state_folder(self.environment)}
        return found if cache is None else {**found, "caches": os.path.join(cache, "carrel")}

    def short(self, path: str) -> str:
        """Return a path as people write it: with `~` for the home folder."""
        home = os.path.realpath(self.home)
        for place in (self.home, home):
            if place != "/" and (path == place or path.startswith(place + "/")):
                return "~" + path[len(place) :]
        return path

    def programs(self, name: str) -> list[str]:
        """Return every program of a name on PATH, in order."""
        folders = dict.fromkeys(self.environment.get("PATH", "").split(os.pathsep))
        places = [os.path.join(folder, name) for folder in folders if os.path.isabs(folder)]
        return [place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)]

    # The configuration

    def _read_settings(self) -> SettingsFiles | ConfigError:
        try:
            return read_settings(self.named, self.environment)
        except ConfigError as error:
            return error

    @property
    def settings_error(self) -> ConfigError | None:
        """Why the settings files cannot be read at all."""
        found = self._settings()
        return found if isinstance(found, ConfigError) else None

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """What is wrong in the settings files."""
        found = self._settings()
        return () if isinstance(found, ConfigError) else found.mistakes

    def _configure(self) -> Config | ConfigError:
        found = self._settings()
        if isinstance(found, ConfigError):
            return found
        try:
            origins = dict.fromkeys((flag[:2] for flag in self.flags), WITH)
            return configure(found.place, self.environment, found.user_table, self.flags, origins)
        except ConfigError as error:
            return error

    @property
    def config(self) -> Config | None:
        """The configuration without the mistakes in its files; None if there is none."""
        found = self._configured()
        return found if isinstance(found, Config) else None

    @property
    def config_error(self) -> ConfigError | None:
        """What is wrong in the environment or on the command line."""
        found = self._configured()
        return found if isinstance(found, ConfigError) and self.settings_error is None else None

    # The desk

    def _examine_store(self) -> int | ConfigError | None:
        try:
            address = None if self.config is None else self.config.store()
            return None if address is None else examine(address)
        except ConfigError as error:
            return error

    @property
    def store_version(self) -> int | ConfigError | None:
        """The version of the schema of the team's store, -1 if it has none; None if no store is configured."""
        return self._store_examined()

    @property
    def store_awaits_start(self) -> bool:
        """Whether a start of a server would change the schema of the store, which an examination must not."""
        if not isinstance(self.store_version, int):
            return False
        from carrel.stores.migrations import VERSION  # only where there is a store

        return self.store_version != VERSION

    def _open_desk(self) -> Desk | CarrelError | None:
        if self.config is None or self.store_awaits_start:
            return None
        if isinstance(self.store_version, ConfigError):
            return self.store_version
        try:
            desk = open_desk(self.config, 0.0)  # a check that needs a gateway waits for it
        except CarrelError as error:
            return error
        self._until_closed.callback(desk.close)
        return desk

    @property
    def desk(self) -> Desk | None:
        """The project's desk; None if it cannot be opened without a change of its store.

        Objects and mounts may still be starting.
        """
        found = self._opened()
        return found if isinstance(found, Desk) else None

    @property
    def desk_error(self) -> CarrelError | None:
        """Why there is no desk although there is a configuration."""
        found = self._opened()
        return found if isinstance(found, CarrelError) else None

    def _ask_all(self) -> dict[str, ProviderAnswer]:
        return {} if self.desk is None else ask_all(self.desk, self.patience_s)

    @property
    def answers(self) -> dict[str, ProviderAnswer]:
        """The answer of each served provider, by name."""
        return self._answered()

    # The hosts

    @property
    def surroundings(self) -> Surroundings:
        """What decides where the settings of hosts are."""
        folder = "/" if self.config is None else self.config.root
        return replace(surroundings(folder), environment=self.environment)

    @property
    def host_files(self) -> list[HostFile]:
        """The settings files of hosts that exist here."""
        return self._hosts_seen()

    # The index

    @property
    def index_folder(self) -> str | None:
        """The folder of the project's search index."""
        return (
            None if self.config is None else index_folder(self.environment, self.config.root, index_rules(self.config))
        )

    @property
    def index_state(self) -> IndexState | None:
        """The search index as it was before this process opened it; None if there is none."""
        return self._index_seen()

    def close(self) -> None:
        """Close the desk."""
        self._until_closed.close()
