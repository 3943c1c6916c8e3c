"""A team desk: files for Compose and Kubernetes, and the same on one machine (`python -m deploy.team`)."""
