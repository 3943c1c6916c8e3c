"""Read and list the objects of a bucket in S3 and compatible stores, Google Cloud and Azure.

The policy, which decides what may be served, is elsewhere. A call ends within its time limit. An error is one sentence
without credentials, addresses or text of the store. A redirect of an S3 store is not followed.

`obstore` is imported when a bucket is first asked, and only here.
"""
