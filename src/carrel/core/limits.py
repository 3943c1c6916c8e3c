"""Every bound, with where its number comes from."""

from typing import Final

MAX_URI_LENGTH: Final = 8_192
"""Characters. What common HTTP servers take in a request line; keeps matching cheap."""

MAX_REMEMBERED_LENGTH: Final = 256
"""Characters of a URI, a path or a header that is remembered to answer sooner. Nearly all are shorter. Tables of
thousands of the longest ones would hold tens of megabytes."""

MAX_QUERY_PAIRS: Final = 64
"""More parameters than any template has; bounds the work of one URI."""

PAGE_SIZE: Final = 1_000
"""Entries in one page of a list. Some hosts see only the first page, so it is generous."""

MAX_LISTED: Final = 1_000
"""Entries of the list that clients are sent, in all: one host drops lists of more than 2,048, another of 20 pages."""

MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024
"""One message, either way: `--max-message-mb` 2, the default of the Fly documents."""

ID_WINDOW_BYTES: Final = 4_096
"""How much of an over-long line is kept to find the id its refusal must repeat."""

MAX_BATCH: Final = 50
"""Messages in one batch; batches exist only where 2025-03-26 was negotiated."""

MAX_COMPLETIONS: Final = 100
"""Values in one completion: the specification's own bound."""

COMPLETIONS_PER_SECOND: Final = 50
COMPLETION_BURST: Final = 100
"""Completions one caller may ask for: typing fast is well below, scraping is not."""

MAX_SUBSCRIBED_URIS: Final = 1_024
"""URIs in one subscription; bounds what a slow reader can have pending."""

UPDATES_PER_SECOND: Final = 5
"""Notifications one subscriber gets of one URI; bursts are folded, the last is told. Lists: `Provider.list_pause_s`."""

REQUEST_DEADLINE_S: Final = 30.0
"""Time any request has. Hosts give up after 60 s; a provider's own deadline is shorter."""

OPENING_DEADLINE_S: Final = 2.0
"""Time the providers have for their instructions. A host that waits longer for its first answer gives the server up."""

STUCK_S: Final = 0.05
"""A call that keeps the reading thread this long keeps that thread, and another one reads on."""

STORE_READ_S: Final = 5.0
STORE_WRITE_S: Final = 25.0
"""What one read or change of a store of scopes may take: the largest tree of a million scopes takes under a second.
A change ends before its request does, so that nothing is changed after its caller was told that time ran out."""

STORE_COMMAND_S: Final = 30.0
STORE_IMPORT_S: Final = 600.0
"""The same for commands, where a person waits and can stop it: for a read, and for a change with the wait for others'
imports. A million scopes are imported in some minutes."""

WORKER_THREADS: Final = 8
"""Blocking reads of one provider at once: one that is stuck holds these, and not those of others."""

MAX_WORKER_THREADS: Final = 64
"""Blocking requests of one connection at once, whoever they are for: eight providers may be stuck."""

MAX_PENDING: Final = 1_024
"""Blocking requests of one connection that wait for a thread for one provider; more are told `busy`."""

MAX_PENDING_IN_ALL: Final = 4_096
"""The same for all providers together, so that one that is flooded leaves room for the others."""

MAX_PATIENT: Final = 64
"""Tool calls of one connection that wait for something long, such as a build; each has a thread, which sleeps."""

SHUTDOWN_GRACE_S: Final = 0.5
"""End of input to exit: running work gets this long to finish."""

FORCED_END_S: Final = 1.5
"""From a signal, or the end of input, to the exit of the process, whatever its threads do then."""

DISCOVER_TTL_MS: Final = 60_000
LIST_TTL_MS: Final = 1_000
"""Cache hints where nothing better is known. Reads default to 0: stale at once."""

MAX_HEADER_BYTES: Final = 65_536
"""All headers of one HTTP request. A URI may need 8 KB in `Mcp-Name` and a JWT several."""

HTTP_READ_S: Final = 30.0
"""From the first byte of an HTTP request, or from connecting, to its last: slow senders are cut off."""

HTTP_IDLE_S: Final = 65
"""A kept-alive HTTP connection without a request: longer than the 60 s that common proxies keep one."""

HTTP_STALL_S: Final = 60.0
"""How long one write of ours may wait for a reader who takes nothing."""

MAX_CONNECTIONS: Final = 4_096
"""Open HTTP connections on which somebody was let in: well above 1,000 listeners, well below what memory holds."""

MAX_NEW_CONNECTIONS: Final = 1_024
MAX_NEW_PER_ADDRESS: Final = 64
"""Open HTTP connections on which nobody was let in yet, in all and from one address of another machine; past either the
oldest goes. A client that asks at once is one of them for milliseconds."""

HTTP_FIRST_S: Final = 10.0
"""How long such a connection is kept, from connecting or from its last request: well above a slow network's delays."""

MAX_WAITING_PER_CLIENT: Final = 256
"""HTTP requests of one client that wait for a provider at once."""

MAX_STREAMS_PER_CLIENT: Final = 2_048
"""Open event streams of one client: twice the largest listening we measure."""

KEEP_ALIVE_S: Final = 15.0
"""A comment goes out on an idle event stream this often: proxies cut what is silent for 30 s."""

SESSION_IDLE_S: Final = 1_800.0
MAX_SESSIONS: Final = 10_000
"""Legacy HTTP sessions: half an hour after the last request they end; past the bound the longest idle one."""
MAX_SESSIONS_PER_CLIENT: Final = 2_500
"""So that one client's sessions do not push out the others'."""

MAX_KEPT_TEXT_BYTES: Final = 4 * 1024 * 1024
"""Contents in memory that were read lately, whose checksums are known."""
