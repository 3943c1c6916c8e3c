"""What a record costs: a frozen dataclass with slots beside a msgspec struct.

python bench/values.py
"""

import timeit
from dataclasses import dataclass

from msgspec import Struct

FIELDS = "    uri: str\n    name: str\n    title: str = ''\n    size: int | None = None\n"
DATACLASS = f"@dataclass(frozen=True, slots=True)\nclass Entry:\n{FIELDS}"
STRUCT = f"class Entry(Struct, frozen=True):\n{FIELDS}"


def measure(source: str) -> tuple[float, float]:
    """Return the microseconds to define the record, and to make one."""
    program = compile(source, "entry", "exec")
    names: dict[str, object] = {"dataclass": dataclass, "Struct": Struct}
    define = min(timeit.repeat(lambda: exec(program, names), number=50, repeat=5)) / 50
    made = timeit.repeat("Entry('a:b', 'b', 't', 3)", globals=names, number=20_000, repeat=5)
    return define * 1e6, min(made) / 20_000 * 1e6


if __name__ == "__main__":
    rows = {name: measure(source) for name, source in {"dataclass": DATACLASS, "struct": STRUCT}.items()}
    print(f"{'':10} {'define, µs':>12} {'make, µs':>10}")
    for name, (define, make) in rows.items():
        print(f"{name:10} {define:12.1f} {make:10.3f}")
    ratios = [slow / fast for slow, fast in zip(rows["dataclass"], rows["struct"], strict=True)]
    print(f"{'ratio':10} {ratios[0]:12.1f} {ratios[1]:10.1f}")
