"""A desk served over HTTP by the installed command, as a user starts it."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class HttpDesk(NamedTuple):
    """Where it is, what it wants to be shown, and its process."""

    url: str
    token: str
    pid: int

    @property
    def origin(self) -> str:
        """The address without the path."""
        return self.url.removesuffix("/mcp")

    @property
    def headers(self) -> dict[str, str]:
        """What every request must carry."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


@contextmanager
def serving(carrel: str, project: Path, *flags: str) -> Iterator[HttpDesk]:
    """Start `carrel serve --http` on a free port; stop it as a user does."""
    environment = {**os.environ, "XDG_STATE_HOME": str(project.parent / "state")}
    command = [carrel, "serve", "--http", "0", "--project", str(project), *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        url = token = ""
        for line in process.stderr:
            url = (re.findall(r"listening on (\S+)", line) or [url])[0]
            token = (re.findall(r"CARREL_TOKEN=(carrel_[\w-]+)", line) or [token])[0]
            if url and (token or "no token" in line):
                break
        try:
            yield HttpDesk(url, token, process.pid)
        finally:
            process.terminate()
            rest = process.stderr.read()
        assert process.wait(10) == 0
        assert rest == "", rest
