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
"""Mounts within mounts; who needs more has made a circle."""

log = logging.getLogger(__name__)


MOUNTED_BY: Final = "CARREL_MOUNTED_BY"
"""Set for what we start: marks of the mounts it runs under, so that a Carrel does not mount itself without end."""


def child_of(name: str, options: MountSettings, root: str, ours: Mapping[str, str]) -> Callable[[], Transport]:
    """Give what starts the program, in its folder, seeing no more of our environment than it is given."""
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
    """Give what opens a conversation with the server at an address; its headers may hold our environment's values."""
    headers = {name: fill(value, f"headers.{name}", ours) for name, value in (options.headers or {}).items()}

    def dial() -> Transport:
        from carrel.client.http import Http  # only where there is an address

        return Http(options.url, headers, max_message_bytes=options.max_message_bytes, insecure=options.insecure)

    return dial
