"""The deny-list: names of secrets, and patterns that the operator denies. They are never opened.

It holds for every provider that opens project files. Only names are compared, so a refusal does not reveal whether the
file exists. The names come from lists that others maintain; each group below names its sources. Names on those lists
that mostly belong to ordinary source or data (`settings.py`, `database.yml`, `.bashrc`, `*.sql`, `*.log`) are left
out, because no setting lifts the deny-list.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from carrel.core.errors import ConfigError
from carrel.core.record import Value
from carrel.files.gitignore import Rules, TooManyPatterns, octets


class Group(Value, frozen=True):
    """Names of secrets, in lower case, with at most one star each (or one at either end), and their sources.

    With `samples`, names that say they are an example are excepted; with `sources`, also those with the suffix of
    program source.
    """

    origin: str
    names: str
    samples: bool = False
    sources: bool = False


GROUPS: Final = (
    Group(
        "GitHub's .gitignore templates (Node, Laravel, Python, Astro), which keep .env.example",
        ".env .env.* .env-* .env_* *.env .envrc",
        samples=True,
    ),
    Group(
        "gitleaks (pkcs12-file), gitrob, GitHub's templates (Android, Java, Rails): keys and key stores",
        "*.pem *.key *.keypair *.p8 *.p12 *.pfx *.pkcs8 *.pkcs12 *.jks *.jceks *.bks *.keystore *.keyring *.ppk *.snk "
        "*.bek *.fve *.tpm key.properties keystore.properties local.properties otr.private_key secring.*",
    ),
    Group(
        "gitrob, OpenSSH: private keys, and the public ones that lead to them",
        "id_rsa* id_dsa* id_ecdsa* id_ed25519* *_rsa *_dsa *_ecdsa *_ed25519",
    ),
    Group(
        "gitrob: the stores of password managers",
        "*.kdb *.kdbx *.psafe3 *.agilekeychain *.keychain *.keychain-db *.kwallet *.opvault",
    ),
    Group(
        "gitrob, GitHub's templates (Godot), Google's and AWS's manuals: credentials by that name",
        "credentials* .credentials* aws_credentials* export_credentials.cfg client_secret*.json client-secret*.json "
        "service-account*.json service_account*.json serviceaccount*.json *-service-account.json "
        "*_service_account.json *firebase-adminsdk*.json application_default_credentials.json",
        samples=True,
        sources=True,
    ),
    Group(
        "GitHub's templates (Rails, Elixir, Python, Streamlit), Ansible's and Vault's manuals: secrets by that name",
        "secrets secrets.yml secrets.yaml secrets.json secrets.toml secrets.ini secrets.properties secrets.env "
        ".secrets .secret secret.json secret.txt secrets.txt secret_token.rb *.secret.exs *.secrets.yml *.secrets.yaml "
        "*.secrets.json local_settings.py .vault_pass* .vault-pass* .vault-token .token password.txt passwords.txt "
        "passwords.csv apikey.txt api_key.txt api-key.txt apikeys.txt api_keys.txt",
    ),
    Group(
        "gitrob, the manuals of npm, Yarn, PyPI, Docker: logins of registries",
        ".npmrc .yarnrc* .pypirc .dockercfg dockercfg .dockerconfigjson",
    ),
    Group(
        "gitrob, the manuals of curl, git, PostgreSQL, MySQL, Apache, s3cmd, boto, rclone, mail clients: logins",
        ".netrc _netrc .git-credentials git-credentials .pgpass pgpass pgpass.conf .my.cnf .mylogin.cnf .htpasswd "
        "htpasswd .htdigest .s3cfg s3cfg .boto .passwd-s3fs .tugboat tugboat rclone.conf .rclone.conf .smbcredentials "
        ".esmtprc .msmtprc .fetchmailrc .muttrc shadow gshadow proftpdpasswd ventrilo_srv.ini wp-config.php "
        "localsettings.php *.ovpn *.rdp *.tblk *.cscfg",
    ),
    Group(
        "gitrob, GitHub's templates (JetBrains, SublimeText), the manuals of editors: logins kept by tools",
        ".ftpconfig .remote-sync.json sftp-config.json sftp.json deployment-config.json filezilla.xml "
        "recentservers.xml sitemanager.xml webservers.xml dbeaver-data-sources.xml .dbeaver-data-sources.xml "
        "robomongo.json http-client.private.env.json jenkins.plugins.publish_over_ssh.bapsshpublisherplugin.xml "
        "logins.json key3.db key4.db",
    ),
    Group(
        "gitrob: what was typed in shells and database clients, passwords among it",
        ".bash_history .zsh_history .sh_history .zhistory .history .mysql_history .psql_history .irb_history "
        ".sqlite_history .python_history .node_repl_history .rediscli_history .dbshell",
    ),
    Group(
        "GitHub's template for Terraform, the manuals of Terraform and kubectl",
        "*.tfvars *.tfvars.json *.tfstate* .terraformrc terraform.rc kubeconfig kubeconfig.* .kubeconfig *.kubeconfig",
    ),
)

FOLDERS: Final = frozenset(
    ".git .hg .svn .bzr .ssh .gnupg .aws .azure .kube .gcloud .password-store .carrel .sage".split()
)
"""Folders that hold secrets or the internals of a repository, or that another provider serves: denied as a whole."""

PLACES: Final[Mapping[str, frozenset[str]]] = {
    "config.json": frozenset({".docker"}),
    "settings.xml": frozenset({".m2"}),
    "gradle.properties": frozenset({".gradle"}),
    "auth.json": frozenset({".composer", "composer"}),
    "hosts.yml": frozenset({"gh"}),
    "config.yaml": frozenset({"doctl"}),
    "accounts.xml": frozenset({".purple"}),
}
"""Names that hold logins only in certain folders: gitrob, and the manuals of Docker, Maven, Gradle, Composer and gh."""

_SAMPLES: Final = tuple("example sample template tmpl tpl dist default defaults schema".split())
_SAMPLE_ENDS: Final = tuple(f"{mark}{word}" for word in _SAMPLES for mark in ".-_")
_DATA_SUFFIXES: Final = frozenset("env json yml yaml toml ini xml properties txt".split())
_SOURCE_ENDS: Final = tuple(
    ".dart .kt .kts .swift .m .mm .py .js .jsx .ts .tsx .go .rs .java .c .cc .cpp .h .cs .rb .php .lua".split()
)
_COPY_SUFFIXES: Final = frozenset(
    ".bak .backup .old .orig .original .save .saved .copy .prev .tmp .temp .rej .swp .swo .swn .swx".split()
)
_COPY_ENDS: Final = ("~", "#", " copy", "_backup", "-backup", "_bak", "-bak", "_old", "-old", "_copy", "-copy")
_COPY_STARTS: Final = (".#", "#", "copy of ")
"""What editors, merges, file managers and people add to the name of a file for a copy of it."""
_MAX_COPIES: Final = 4
"""Marks of a copy that are removed from one name, as for a copy of a copy."""


class DenyList:
    """The deny-list, with the patterns the operator added."""

    def __init__(self, deny: Sequence[str] = ()) -> None:
        # The operator's patterns are compared exactly, and without case and look-alikes.
        self._rules = (rules_of("deny", deny), rules_of("deny", map(_folded, deny))) if deny else None

    def covers(self, above: Sequence[str], prefix: str, name: str, *, is_folder: bool) -> bool:
        """Return whether a name is denied; `above` are its folders, `prefix` the same as octets with a closing `/`."""
        if holds_secrets(above, name, is_folder=is_folder):
            return True
        if self._rules is None:
            return False
        exactly, loosely = self._rules
        folded = _folded(name)
        alike = "".join(f"{octets(_folded(folder))}/" for folder in above)
        return bool(
            exactly.decide(prefix, octets(name), is_folder=is_folder)
            or loosely.decide(alike, octets(folded), is_folder=is_folder)
        )

    def covers_path(self, segments: Sequence[str], is_folder: bool) -> bool:
        """Return whether a file or folder is denied, by its name or by that of a folder above it."""
        prefix, last = "", len(segments) - 1
        for at, name in enumerate(segments):
            if self.covers(segments[:at], prefix, name, is_folder=is_folder or at != last):
                return True
            prefix += f"{octets(name)}/"
        return False


def rules_of(key: str, patterns: Iterable[str]) -> Rules:
    """Return the patterns of a setting of `[workspace]`; raise ConfigError if there are too many."""
    try:
        return Rules.of(map(octets, patterns))
    except TooManyPatterns as error:
        raise ConfigError(f"[workspace] {key}: there are {error}") from None


def holds_secrets(above: Sequence[str], name: str, *, is_folder: bool) -> bool:
    """Return whether a name is on the built-in list; `above` are the folders it lies in."""
    folded = _folded(name)
    if folded in FOLDERS:
        return True
    if is_folder:
        return False
    if above and folded in PLACES and _folded(above[-1]) in PLACES[folded]:
        return True
    return _is_secret(folded)


class _Table:
    """The names of some groups, sorted by how they are compared."""

    def __init__(self, groups: Iterable[Group]) -> None:
        patterns = [pattern for group in groups for pattern in group.names.split()]
        stars = [(pattern, *pattern.partition("*")) for pattern in patterns]
        inner = [pattern[1:-1] for pattern in patterns if pattern[0] == pattern[-1] == "*"]
        ends = [end for pattern, start, star, end in stars if star and not start and pattern[1:-1] not in inner]
        self.names = frozenset(pattern for pattern, _, star, _ in stars if not star)
        self.starts = tuple(start for _, start, star, end in stars if star and start and not end)
        self.ends = tuple(end for end in ends if "*" not in end)
        self.pairs = tuple((start, end) for _, start, star, end in stars if star and start and end)
        self.parts = tuple((part, "") for part in inner)
        self.parts += tuple((end.partition("*")[0], end.partition("*")[2]) for end in ends if "*" in end)

    def holds(self, name: str) -> bool:
        """Return whether a name is one of these."""
        if name in self.names or name.startswith(self.starts) or name.endswith(self.ends):
            return True
        return any(name.startswith(start) and name.endswith(end) for start, end in self.pairs) or any(
            part in name and name.endswith(end) for part, end in self.parts
        )


_ALWAYS: Final = _Table(group for group in GROUPS if not group.samples)
_BUT_SAMPLES: Final = _Table(group for group in GROUPS if group.samples and not group.sources)
_BUT_SOURCES: Final = _Table(group for group in GROUPS if group.sources)


_TABLES: Final = (_ALWAYS, _BUT_SAMPLES, _BUT_SOURCES)

# A quick test before the full comparison: nearly every name in a list fails it.
_ALL_NAMES: Final = frozenset().union(*(table.names for table in _TABLES))
_FIRST_THREE: Final = frozenset(
    start[:3]
    for start in (*_COPY_STARTS, *(one for table in _TABLES for one in (*table.starts, *dict(table.pairs))))
    if len(start) >= 3
)
_LAST_THREE: Final = frozenset(
    end[-3:] for end in (*_COPY_SUFFIXES, *_COPY_ENDS, *(one for table in _TABLES for one in table.ends))
)
_MARKS: Final = frozenset("~#0123456789")
_find_part: Final = re.compile("|".join(re.escape(part) for table in _TABLES for part, _ in table.parts)).search


def _is_secret(folded: str) -> bool:
    """Return whether a name, or the name of which it is a copy, is on the list."""
    if (
        folded in _ALL_NAMES
        or folded[:3] in _FIRST_THREE
        or folded[-3:] in _LAST_THREE
        or folded[-1:] in _MARKS
        or folded[:1] == "#"
        or folded[:2] == ".#"
        or _find_part(folded)
    ):
        return _is_listed(folded) or any(map(_is_listed, _originals(folded)))
    return False


def _is_listed(name: str) -> bool:
    if _ALWAYS.holds(name):
        return True
    if _BUT_SAMPLES.holds(name):
        return not _is_sample(name)
    if _BUT_SOURCES.holds(name):
        return not name.endswith(_SOURCE_ENDS) and not _is_sample(name)
    return False


def _is_sample(name: str) -> bool:
    """Return whether a name says that it is an example: `.env.example`, `example.env`, `credentials.sample.json`."""
    before, _, suffix = name.rpartition(".")
    stem = before if suffix in _DATA_SUFFIXES else name
    return name.endswith(_SAMPLE_ENDS) or stem.endswith(_SAMPLE_ENDS) or stem in _SAMPLES


def _originals(name: str) -> Iterator[str]:
    """Yield the names of which this one may be the name of a copy."""
    for _ in range(_MAX_COPIES):
        shorter = _without_mark(name)
        if shorter == name or not shorter:
            return
        yield shorter
        if shorter[0] == ".":  # editors put a dot before the name of a swap file
            yield shorter[1:]
        name = shorter


def _without_mark(name: str) -> str:
    """Return a name without the last mark of a copy."""
    dot = name.rfind(".")
    if dot > 0 and (name[dot:] in _COPY_SUFFIXES or name[dot + 1 :].isdecimal()):
        return name[:dot]
    for mark in _COPY_ENDS if name.endswith(_COPY_ENDS) else ():
        name = name.removesuffix(mark)
    for mark in _COPY_STARTS if name.startswith(_COPY_STARTS) else ():
        name = name.removeprefix(mark)
    return name


def _folded(name: str) -> str:
    """Return a name as the deny-list compares it: without look-alikes, invisible characters and case."""
    return name.lower() if name.isascii() else _folded_of_any_script(name)


@lru_cache(maxsize=2_048)
def _folded_of_any_script(name: str) -> str:
    """Return a folded name; cached, since every file is judged by all the folders above it."""
    plain = unicodedata.normalize("NFKC", name)
    visible = (one for one in plain if unicodedata.category(one) != "Cf" and not _is_variation_selector(one))
    return unicodedata.normalize("NFKC", "".join(visible).casefold())


def _is_variation_selector(character: str) -> bool:
    return (
        "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or character in "\u180b\u180c\u180d\u180f"
    )
