"""The desk in a browser: every resource as a page for people, with the model's view of it and its cost in tokens.

It reads the same catalogue with the same access as every other face, and starts nothing. Each page is also data: a
`Leaf` holds the data of a page, which is sent as HTML (`templates`), as JSON or as Markdown, with one ETag. Imported
only when a page is asked for (`transports.http.pages`).

    explorer    which page answers a request
    leaves      a page, and how it is sent
    addresses   the page of a URI, and the URI of a page
    templating  the templates
    rendering   from a text to safe HTML: code, Markdown, JSON, logs, and so on
"""
