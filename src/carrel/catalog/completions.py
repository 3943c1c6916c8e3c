"""Completion for a caller who may read only parts of a scheme: values of URIs that may be read, and no others.

The provider is asked only for values that begin as those of the parts do. So what it leaves out, and how many it
counts, does not depend on the rest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from carrel.catalog.access import is_at
from carrel.core.errors import BadArgument, TemplateError
from carrel.core.limits import MAX_COMPLETIONS
from carrel.core.model import Completion
from carrel.core.record import Value
from carrel.core.template import UriTemplate
from carrel.core.uri import decode_loosely

NONE_OFFERED = Completion((), total=0, has_more=False)


def as_completion(offered: Completion | Sequence[str]) -> Completion:
    """Return what a provider offers: at most a hundred values, and whether there are more."""
    if not isinstance(offered, Completion):
        offered = Completion(tuple(offered), total=len(offered), has_more=False)
    if len(offered.values) > MAX_COMPLETIONS:
        return Completion(offered.values[:MAX_COMPLETIONS], total=offered.total, has_more=True)
    return offered


class LimitedCompletion(Value, frozen=True):
    """The completion of one variable in a scheme of which the caller may read some `places`."""

    template: str
    variable: str
    context: Mapping[str, str]
    places: Sequence[str]
    ask: Callable[[str], Completion | Sequence[str]]
    """Returns what the provider offers for the beginning of a value."""
    can_read: Callable[[str], bool]

    def offered(self, value: str) -> Completion:
        """Return the values that begin with `value` and lead to what the caller may read."""
        try:
            template = UriTemplate(self.template)
            begins = dict.fromkeys(self._begins(template, value))
        except (TemplateError, BadArgument):  # it is not known which URIs are meant
            return NONE_OFFERED
        found: dict[str, None] = {}
        has_more = False
        for begin in begins:
            offered = self.ask(begin)
            values = offered.values if isinstance(offered, Completion) else offered
            fitting = [one for one in values if one.startswith(value) and self._leads_in(template, one)]
            found.update(dict.fromkeys(fitting))
            # If some were left out, all that may be read were among them.
            is_cut = isinstance(offered, Completion) and bool(offered.has_more)
            has_more = has_more or (is_cut and len(fitting) == len(values))
        has_more = has_more or len(found) > MAX_COMPLETIONS
        return Completion(tuple(found)[:MAX_COMPLETIONS], None if has_more else len(found), has_more)

    def _begins(self, template: UriTemplate, value: str) -> Iterator[str]:
        """Yield beginnings of values that may lead to one of the parts and that agree with what is typed."""
        if self.variable in template.query_variables:
            yield value
            return
        before, is_rest = template.expand_before(self.variable, self.context)
        for place in self.places:
            if is_at(before, place):
                yield value
            elif place.startswith(before):
                rest = place[len(before) :]
                named = decode_loosely(rest if is_rest else rest.partition("/")[0])
                if named.startswith(value) or value.startswith(named):
                    yield max(named, value, key=len)

    def _leads_in(self, template: UriTemplate, value: str) -> bool:
        """Return whether a URI with this value may be read; if more variables follow, whether one of them may be."""
        values = {**self.context, self.variable: value}
        in_path = [name for name in template.variables if name not in template.query_variables]
        following = in_path[in_path.index(self.variable) + 1 :] if self.variable in in_path else []
        try:
            if not following:
                return self.can_read(template.expand(values))
            begun, _ = template.expand_before(following[0], values)
        except BadArgument:
            return False
        return any(is_at(begun, place) or place.startswith(begun) for place in self.places)
