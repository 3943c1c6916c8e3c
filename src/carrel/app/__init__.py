"""From a folder to a configured server: settings, trust, and the choice of providers."""
