"""How a mounted server is reached: as a child process, or at an address."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Final

from carrel.client.child import ChildServer
from carrel.client.rpc import Transport
from carrel.core.errors import ConfigError
from carrel.core.hashing import blake2b
from carrel.providers.mounts.link import Refused
from carrel.providers.mounts.settings import MountSettings, fill

MAX_DEPTH: Final = 8
"""Maximum depth of mounts within mounts; a deeper one is probably a circle."""

log = logging.getLogger(__name__)


MOUNTED_BY: Final = "CARREL_MOUNTED_BY"
"""Environment variable with a mark for each mount that a child runs under, so that no Carrel mounts itself."""


def child_of(name: str, options: MountSettings, root: str, ours: Mapping[str, str]) -> Callable[[], Transport]:
    """Return a function that starts the program, in its folder and with the environment of the settings."""
    folder = os.path.realpath(os.path.join(root, os.path.expanduser(options.cwd)))
    if not os.path.isdir(folder):
        raise ConfigError(f"cwd: there is no folder {folder}")
    command = options.command or ()
    mark = blake2b("\0".join((folder, *command)).encode(), digest_size=8).hexdigest()
    above = [one for one in ours.get(MOUNTED_BY, "").split(",") if one]
    env = {**options.environment(ours), MOUNTED_BY: ",".join((*above, mark))}

    def start() -> Transport:
        if mark in above or len(above) >= MAX_DEPTH:
            raise Refused("this server runs under the same mount already")
        return ChildServer(
            command,
            cwd=folder,
            env=env,
            stderr=lambda line: log.info("mount %s: %s", name, line),
            max_message_bytes=options.max_message_bytes,
        )

    return start


def address_of(options: MountSettings, ours: Mapping[str, str]) -> Callable[[], Transport]:
    """Return a function that connects to the server at an address; headers may contain values of our environment."""
    headers = {name: fill(value, f"headers.{name}", ours) for name, value in (options.headers or {}).items()}

    def dial() -> Transport:
        from carrel.client.http import Http  # not needed for a child process

        return Http(options.url, headers, max_message_bytes=options.max_message_bytes, insecure=options.insecure)

    return dial
