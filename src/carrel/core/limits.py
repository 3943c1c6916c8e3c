"""All limits, each with the reason for its number."""

from typing import Final

MAX_URI_LENGTH: Final = 8_192
"""Characters. What common HTTP servers accept in a request line; keeps matching cheap."""

MAX_REMEMBERED_LENGTH: Final = 256
"""Characters of a URI, path or header that is cached. Nearly all are shorter; thousands of the longest ones would take
tens of megabytes."""

MAX_QUERY_PAIRS: Final = 64
"""More than any template has; limits the work for one URI."""

PAGE_SIZE: Final = 1_000
"""Entries in one page of a list. Some hosts see only the first page, so it is large."""

MAX_LISTED: Final = 1_000
"""Entries of a client's whole list: one host drops lists of more than 2,048 entries, another of 20 pages."""

MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024
"""Size of one message in either direction: `--max-message-mb` 2, the default of the Fly documents."""

ID_WINDOW_BYTES: Final = 4_096
"""Bytes of an over-long line that are kept to find its id for the error."""

MAX_BUDGET: Final = 1_000_000
"""Tokens of one answer: as many as the largest models read at once, and more than one message holds."""

MAX_BATCH: Final = 50
"""Messages in one batch; batches exist only in version 2025-03-26."""

MAX_COMPLETIONS: Final = 100
"""Values in one completion: the specification's own bound."""

COMPLETIONS_PER_SECOND: Final = 50
COMPLETION_BURST: Final = 100
"""Completions for one caller: fast typing needs much less, scraping needs more."""

MAX_SUBSCRIBED_URIS: Final = 1_024
"""URIs in one subscription; limits the notifications that wait for a slow client."""

UPDATES_PER_SECOND: Final = 5
"""Notifications about one URI for one subscriber. Of a burst, the last one is sent. Lists: `Provider.list_pause_s`."""

REQUEST_DEADLINE_S: Final = 30.0
"""Time limit for any request. Hosts give up after 60 s; the deadlines of providers are shorter."""

OPENING_DEADLINE_S: Final = 2.0
"""Time limit for the providers' instructions. Hosts drop a server whose first answer takes much longer."""

STUCK_S: Final = 0.05
"""If a call blocks the reading thread this long, another thread takes over reading."""

STORE_READ_S: Final = 5.0
STORE_WRITE_S: Final = 25.0
"""Time limits for one read or change of a scopes store: the largest tree of a million scopes takes under a second. A
change ends before its request does, so that nothing changes after the caller got a timeout."""

STORE_COMMAND_S: Final = 30.0
STORE_IMPORT_S: Final = 600.0
"""The same for commands, which a person can stop; a change may wait for an import. To import a million scopes takes
some minutes."""

WORKER_THREADS: Final = 8
"""Blocking calls of one provider at once: a stuck provider holds its own threads and not those of others."""

MAX_WORKER_THREADS: Final = 64
"""Blocking requests of one connection at once for all providers: eight of them may be stuck."""

MAX_PENDING: Final = 1_024
"""Blocking requests of one connection that wait for a thread of one provider; more get the error `busy`."""

MAX_PENDING_IN_ALL: Final = 4_096
"""The same for all providers together, so that a flooded one leaves room for the others."""

MAX_PATIENT: Final = 64
"""Tool calls of one connection that wait for long work such as a build; each has a sleeping thread."""

SHUTDOWN_GRACE_S: Final = 0.5
"""Time that running work gets to finish after the end of input."""

FORCED_END_S: Final = 1.5
"""Time from a signal or the end of input to the exit of the process, whatever its threads do."""

DISCOVER_TTL_MS: Final = 60_000
LIST_TTL_MS: Final = 1_000
"""Default cache hints. For reads it is 0: stale at once."""

MAX_HEADER_BYTES: Final = 65_536
"""All headers of one HTTP request. A URI may need 8 KB in `Mcp-Name` and a JWT several."""

HTTP_READ_S: Final = 30.0
"""Time from the start of an HTTP request, or of the connection, to its last byte: slow senders are cut off."""

HTTP_IDLE_S: Final = 65
"""Time that an idle HTTP connection stays open: longer than the 60 s of common proxies."""

HTTP_STALL_S: Final = 60.0
"""Time that one write may wait for a client that reads nothing."""

MAX_CONNECTIONS: Final = 4_096
"""Open HTTP connections with an accepted request: well above 1,000 listeners, well below what memory holds."""

MAX_NEW_CONNECTIONS: Final = 1_024
MAX_NEW_PER_ADDRESS: Final = 64
"""Open HTTP connections without an accepted request, in all and from one remote address; above either limit the oldest
is closed. A client that sends its request at once is among them for milliseconds."""

HTTP_FIRST_S: Final = 10.0
"""Time that such a connection is kept after connecting or after its last request: well above network delays."""

MAX_WAITING_PER_CLIENT: Final = 256
"""HTTP requests of one client that wait for a provider at once."""

MAX_STREAMS_PER_CLIENT: Final = 2_048
"""Open event streams of one client: twice the largest listening we measure."""

KEEP_ALIVE_S: Final = 15.0
"""Interval of comments on an idle event stream: proxies cut streams that are silent for 30 s."""

SESSION_IDLE_S: Final = 1_800.0
MAX_SESSIONS: Final = 10_000
"""Legacy HTTP sessions end half an hour after their last request; above the maximum, the longest idle one ends."""
MAX_SESSIONS_PER_CLIENT: Final = 2_500
"""Keeps one client's sessions from pushing out those of others."""

MAX_KEPT_TEXT_BYTES: Final = 4 * 1024 * 1024
"""Total size of recently read contents in memory whose checksums are kept."""
