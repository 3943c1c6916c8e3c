"""The command line. `serve` goes its own short way: it imports no CLI package."""

import os
import sys
from collections.abc import Sequence

from carrel.cli import exits


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; give the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["serve"] and "--help" not in words and "-h" not in words:
            from carrel.cli.serve import run  # the fast way

            return run(words[1:])
        from carrel.cli.app import run_app  # click and rich, which serve must not wait for

        return run_app(words)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exits.DONE
    except Exception as error:
        return _report(error, is_debug="--debug" in words or bool(os.environ.get("CARREL_DEBUG")))


def _report(error: Exception, *, is_debug: bool) -> int:
    """Say what went wrong and what to do next; give the exit code."""
    from carrel.errors import BadArgument, CarrelError, ConfigError, RemoteError  # only on failure

    if is_debug:
        import traceback  # only on failure

        traceback.print_exception(error)
    if isinstance(error, CarrelError):
        print(f"carrel: {error}", file=sys.stderr)
        is_usage = isinstance(error, ConfigError | BadArgument) or (
            isinstance(error, RemoteError) and error.word == "invalid"
        )
        return exits.USAGE if is_usage else exits.FAILED
    print(f"carrel: unexpected {type(error).__name__}: {error}", file=sys.stderr)
    print("carrel: this is a bug; --debug shows where. Please report it with that output.", file=sys.stderr)
    return exits.BUG
