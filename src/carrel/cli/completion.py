"""`completion`: the script that completes commands, hosts and URIs in a shell, and the answers to it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

import click
from click.shell_completion import CompletionItem

from carrel.app.app import open_desk
from carrel.cli.context import CommandOptions
from carrel.client.client import Client
from carrel.connect.shell import SHELLS, Shell
from carrel.core.errors import CarrelError
from carrel.core.uri import PATH_SAFE, quote

MAX_URIS: Final = 200
"""Maximum number of URIs that are offered."""
_EXPRESSION: Final = re.compile(r"\{([+]?)([A-Za-z0-9_.]+)\}")

_BASH: Final = r"""
_carrel_completion() {
    # The words are taken from the line itself: bash would split a URI at its colons.
    local line="${COMP_LINE:0:COMP_POINT}" current words count type value prefix
    current="${line##*[[:space:]]}"
    read -ra words <<< "$line"
    count=${#words[@]}
    [[ -n "$current" ]] && count=$((count - 1))
    COMPREPLY=()
    while IFS=, read -r type value; do
        case "$type" in
            dir) while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -d -- "$current") ;;
            file) while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -f -- "$current") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_WORDS="$line" COMP_CWORD="$count" _CARREL_COMPLETE=bash_complete "${words[0]}" 2>/dev/null)
    if [[ "$current" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        prefix="${current%"${current##*:}"}"
        COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    fi
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == */ ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -F _carrel_completion carrel
"""

_ZSH: Final = r"""
#compdef carrel

_carrel_completion() {
    local type value help found=1
    local -a answer plain folders described
    answer=("${(@f)$(COMP_WORDS="${words[1,CURRENT-1]} $PREFIX" COMP_CWORD=$((CURRENT - 1)) \
        _CARREL_COMPLETE=zsh_complete ${~words[1]} 2>/dev/null)}")
    for type value help in "${(@)answer}"; do
        case "$type" in
            dir) _path_files -/ && found=0 ;;
            file) _path_files && found=0 ;;
            plain)
                if [[ "$help" != _ ]]; then
                    described+=("$value:$help")
                elif [[ "$value" == */ ]]; then
                    folders+=("$value")
                else
                    plain+=("$value")
                fi
                ;;
        esac
    done
    (( $#described )) && _describe -V carrel described && found=0
    (( $#plain )) && compadd -V carrel -a plain && found=0
    (( $#folders )) && compadd -V carrel -S "" -a folders && found=0
    return found
}

_carrel_register() {
    # A start file that loads no completion system of zsh gets it now, before its first prompt.
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
    compdef _carrel_completion carrel
    add-zsh-hook -d precmd _carrel_register
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _carrel_completion "$@"
elif (( $+functions[compdef] )); then
    compdef _carrel_completion carrel
else
    autoload -Uz add-zsh-hook
    add-zsh-hook precmd _carrel_register
fi
"""

_FISH: Final = r"""
function _carrel_completion
    set -l line (commandline --cut-at-cursor --current-process | string collect)
    set -l program (string match --regex "\S+" -- $line)
    set -l word (commandline --cut-at-cursor --current-token | string collect)
    for answer in (env COMP_WORDS=$line COMP_CWORD=$word _CARREL_COMPLETE=fish_complete $program[1] 2>/dev/null)
        set -l parts (string split --max 1 "," -- $answer)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                printf "%s\n" $parts[2]
        end
    end
end

complete --no-files --command carrel --arguments "(_carrel_completion)"
"""
_SCRIPTS: Final[dict[Shell, str]] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: Shell) -> None:
    """Print the script that completes commands, hosts and URIs. `carrel connect shell` installs it."""
    click.echo(script_of(shell), nl=False)


def script_of(shell: Shell) -> str:
    """Return the script for a shell."""
    return _SCRIPTS[shell].lstrip()


def complete_hosts(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of hosts that begin as the word does, without those that are named already."""
    from carrel.connect.hosts import HOSTS  # only when a host is completed

    named = context.params.get("hosts") or ()
    hosts = [(host.name, host.title) for host in HOSTS] + [("shell", "completion in your shell")]
    return [
        CompletionItem(name, help=title) for name, title in hosts if name.startswith(incomplete) and name not in named
    ]


def complete_uris(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return URIs of this desk that begin as the word does; nothing if the desk cannot be opened."""
    options = context.find_object(CommandOptions) or CommandOptions()
    try:
        with _quick_client(options) as client:
            found = list(dict.fromkeys(islice(_uris(client, incomplete), MAX_URIS)))
    except (CarrelError, OSError):
        return []
    items = [CompletionItem(uri) for uri in found]
    # A word without a scheme may be a path as well.
    return items if ":" in incomplete else [*items, CompletionItem(incomplete, type="file")]


@contextmanager
def _quick_client(options: CommandOptions) -> Iterator[Client]:
    """Open a client of the desk that does not wait for programs that are still starting."""
    desk = open_desk(options.config())
    try:
        with Client.to(desk.server) as client:
            yield client
    finally:
        desk.close()


def _uris(client: Client, incomplete: str) -> Iterator[str]:
    templates = [template.uri_template for template in client.templates()]
    if ":" not in incomplete:
        starts = {template.partition("{")[0] for template in templates}
        starts |= {re.sub(r"(://[^/]*/?).*", r"\1", entry.uri) for entry in client.page().entries}
        yield from sorted(start for start in starts if start.startswith(incomplete) and start)
        return
    for template in templates:
        yield from _completed(client, template, incomplete)
    yield from (entry.uri for entry in client.resources(incomplete))


def _completed(client: Client, template: str, incomplete: str) -> Iterator[str]:
    """Yield URIs of a template, whose first variable is completed as the protocol does it."""
    start = template.partition("{")[0]
    expression = _EXPRESSION.match(template, len(start))
    if expression is None or not incomplete.startswith(start):
        if start.startswith(incomplete):
            yield start
        return
    is_path, variable = expression[1] == "+", expression[2]
    begun = incomplete[len(start) :]
    if "/" in begun and not is_path:
        return
    rest = template[expression.end() :].partition("{")[0]
    for value in client.complete(template, variable, begun).values:
        yield start + quote(value, PATH_SAFE if is_path else "") + ("" if value.endswith("/") else rest)
