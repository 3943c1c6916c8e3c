"""How a mounted server is reached: so far, as a child process."""

import logging
import os
from collections.abc import Callable, Mapping

from carrel.errors import ConfigError
from carrel.peer import Transport
from carrel.providers.mounts.settings import MountSettings
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
