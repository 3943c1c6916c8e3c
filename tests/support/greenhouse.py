"""A greenhouse on the desk: moisture per bed. The example of the page of objects, whole."""

import json

from carrel import BadArgument, NotFound, Resource, Template
from carrel.providers.objects import BlobContent, Contents, TextContent, ToolMethod


class Greenhouse:
    def __init__(self, beds: dict[str, float]) -> None:
        self._beds = beds

    def capabilities(self) -> list[str]:
        return ["resources", "tools", "completions"]

    def resources(self) -> list[Resource]:
        return [
            Resource("greenhouse://house/summary", "summary", "Every bed, one per line", "text/plain"),
            Resource("greenhouse://house/badge", "badge", "A picture of the house", "image/png"),
        ]

    def resource_templates(self) -> list[Template]:
        return [Template("greenhouse://house/beds/{bed}", "bed", "One bed", "application/json")]

    def resource_read(self, uri: str, arguments: list[tuple[str, str]]) -> Contents:
        match uri.removeprefix("greenhouse://house/").split("/"):
            case ["badge"]:
                return Contents([BlobContent(uri, "image/png", "iVBORw0KGgo=")])
            case ["summary"]:
                below = dict(arguments).get("below", "100")
                if not below.isdigit():
                    raise BadArgument("below must be a whole number")
                wet = [f"{bed} {wet}" for bed, wet in sorted(self._beds.items()) if wet < int(below)]
                return Contents([TextContent(uri, "text/plain", "\n".join(wet))])
            case ["beds", bed] if bed in self._beds:
                text = json.dumps({"bed": bed, "moisture": self._beds[bed]})
                return Contents([TextContent(uri, "application/json", text)])
        raise NotFound(uri)

    def tools(self) -> list[ToolMethod]:
        return [ToolMethod("driest", "driest", read_only=True)]

    def driest(self) -> str:
        """Name the driest bed."""
        return min(self._beds, key=self._beds.__getitem__)

    def completion(self, reference: str, argument: tuple[str, str], context: list[tuple[str, str]]) -> list[str]:
        return sorted(bed for bed in self._beds if bed.startswith(argument[1]))
