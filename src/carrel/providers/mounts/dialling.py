"""How a mounted server is reached: as a child process, or at an address."""

import logging
import os
from collections.abc import Callable, Mapping

from carrel.errors import ConfigError
from carrel.peer import Transport
from carrel.providers.mounts.settings import MountSettings, fill
from carrel.transports.child import Child

log = logging.getLogger(__name__)


def child_of(name: str, options: MountSettings, root: str, env: Mapping[str, str]) -> Callable[[], Transport]:
    """Give what starts the program, in its folder, seeing no more of our environment than it is given."""
    folder = os.path.join(root, os.path.expanduser(options.cwd))
    if not os.path.isdir(folder):
        raise ConfigError(f"cwd: there is no folder {folder}")

    def start() -> Transport:
        return Child(
            options.command,
            cwd=folder,
            env=env,
            stderr=lambda line: log.info("mount %s: %s", name, line),
            max_message_bytes=options.max_message_bytes,
        )

    return start


def address_of(options: MountSettings, ours: Mapping[str, str]) -> Callable[[], Transport]:
    """Give what opens a conversation with the server at an address; its headers may hold our environment's values."""
    headers = {name: fill(value, f"headers.{name}", ours) for name, value in options.headers.items()}

    def dial() -> Transport:
        from carrel.transports.http_client import Http  # only where there is an address

        return Http(options.url, headers, max_message_bytes=options.max_message_bytes, insecure=options.insecure)

    return dial
