"""The application and the server that runs it: what they import. Other tests ask the application."""

import subprocess
import sys

NOT_FOR_A_SERVER = ("click", "multiprocessing", "uvicorn.main", "uvicorn.supervisors", "watchfiles")


def printed(code: str) -> str:
    """Run a program in a new interpreter; return what it prints."""
    program = f"import sys\nfrom carrel.transports.http.app import App, import_uvicorn, runner\n{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_a_server_imports_no_command_line() -> None:
    code = (
        "from carrel.catalog.catalog import Catalog\n"
        "from carrel.server.server import Server\n"
        "from carrel.transports.http.guard import AcceptedNames, Guard\n"
        "runner(App(Server(Catalog()), Guard(AcceptedNames(is_loopback=True)))).config.load()\n"
        f"print(sorted(set({NOT_FOR_A_SERVER}) & set(sys.modules)))"
    )
    assert printed(code) == "[]"


def test_the_package_of_the_server_still_has_everything_for_others() -> None:
    code = (
        "import_uvicorn()\n"
        "import uvicorn\n"
        "given = uvicorn.Server, uvicorn.Config, uvicorn.run, uvicorn.main\n"
        "from uvicorn.main import Config, Server, main, run\n"
        "print(given == (Server, Config, run, main), hasattr(uvicorn, 'nothing'))"
    )
    assert printed(code) == "True False"


def test_a_package_that_is_imported_already_is_left_alone() -> None:
    code = "import uvicorn\nbefore = dict(vars(uvicorn))\nimport_uvicorn()\nprint(vars(uvicorn) == before)"
    assert printed(code) == "True"
