"""Any Python object that speaks the facet protocol, as a provider."""

from carrel.providers.objects.provider import ObjectProvider, serve_built, serve_object
from carrel.providers.objects.settings import ObjectSettings

__all__ = ["ObjectProvider", "ObjectSettings", "serve_built", "serve_object"]
