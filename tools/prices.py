"""Write src/fleet/prices.json, the prices of models from the newest genai-prices on PyPI: `python3 tools/prices.py`.

The package is too large and too slow to import while fleet works. The table keeps a rule that names each model, and its
prices in dollars per million tokens. A price has a start date, and may differ for requests beyond a size.
"""

import datetime
import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parent.parent / "src" / "fleet" / "prices.json"
LARGEST = 60 * 1024
PROVIDERS = ("anthropic", "openai", "google", "x-ai", "moonshotai", "zai", "minimax", "mistral", "deepseek")
#: The units of a price that coders count: uncached input, output, cache reads, cache writes.
UNITS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
CLAUSES = {"equals": "=", "starts_with": "^", "ends_with": "$", "contains": "*", "regex": "~"}


def main() -> None:
    """Fetch the package and rewrite the table."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "genai-prices"]
        subprocess.run(argv, check=True)
        version = next(Path(folder).glob("genai_prices-*.dist-info")).stem.partition("-")[2]
        sys.path.insert(0, folder)
        write(importlib.import_module("genai_prices.data").providers, f"genai-prices {version}")


def write(providers: list[Any], origin: str) -> None:
    """Write the table, unless it is too large to ship."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    found = [each for name in PROVIDERS for each in models(next(one for one in providers if one.id == name))]
    table = {"from": origin, "date": today, "units": UNITS, "models": found}
    text = json.dumps(table, separators=(",", ":")).replace('{"match"', '\n{"match"') + "\n"
    if len(text) > LARGEST:
        sys.exit(f"error: the table has {len(text)} bytes, and may have {LARGEST}")
    TABLE.write_text(text, "utf-8")
    print(f"{len(found)} models, {len(text)} bytes, {origin}")


def models(provider: Any) -> list[dict[str, Any]]:
    """Return the models of a provider that are priced by tokens."""
    found = []
    for model in provider.models:
        prices: list[dict[str, Any]] = []
        for told in model.prices if isinstance(model.prices, list) else [model.prices]:
            price = price_from(told)
            if price and prices and hasattr(getattr(told, "constraint", None), "start_time"):
                prices[-1]["usd"] = list(map(dearer, prices[-1]["usd"], price["usd"]))
            elif price:
                prices.append(price)
        if prices:
            found.append({"match": rule(model.match), "prices": prices})
    return found


def dearer(one: float | None, other: float | None) -> float | None:
    """Return the higher of two prices that depend on the hour, so that a budget is not spent at the lower one."""
    return max((each for each in (one, other) if each is not None), default=None)


def price_from(told: Any) -> dict[str, Any] | None:
    """Return one price with its start date and dollars per unit, and again for each larger size of requests."""
    since = getattr(getattr(told, "constraint", None), "start_date", None)
    units = [getattr(getattr(told, "prices", told), name, None) for name in UNITS]
    if units[0] is None or units[1] is None:
        return None
    starts = sorted({tier.start for unit in units for tier in getattr(unit, "tiers", ())})
    price: dict[str, Any] = {"since": since.isoformat()} if since else {}
    price["usd"] = [at(unit, 0) for unit in units]
    return price | ({"tiers": [[start, *(at(unit, start) for unit in units)] for start in starts]} if starts else {})


def at(unit: Any, size: int) -> float | None:
    """Return the price of a unit in a request of a size."""
    if unit is None:
        return None
    price = getattr(unit, "base", unit)
    for tier in getattr(unit, "tiers", ()):
        price = tier.price if size >= tier.start else price
    return int(price) if price == int(price) else float(price)


def rule(clause: Any) -> list[Any]:
    """Return the rule that recognizes a model, as lists: ["=", name], ["|", rule, rule] and so on."""
    for name, sign in (("or_", "|"), ("and_", "&")):
        if hasattr(clause, name):
            return [sign, *map(rule, getattr(clause, name))]
    return next([sign, getattr(clause, name)] for name, sign in CLAUSES.items() if hasattr(clause, name))


if __name__ == "__main__":
    main()
