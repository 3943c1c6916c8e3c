"""Objects of a bucket: read in parts and listed, within bounds, from S3 and its like, Google Cloud and Azure.

Nothing here knows what may be served. A call ends within its time limit. An error is one sentence that names no
credentials, no address and no text of the store. A redirect of an S3 store is not followed.

`obstore` is imported when a bucket is first asked, and only here.
"""
