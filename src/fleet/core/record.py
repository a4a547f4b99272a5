"""Frozen records, like dataclasses but without that import, which takes longer than starting Python."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """Return a decorator that does nothing. Type checkers use the real one."""
        return lambda cls: cls


_REQUIRED = object()


@dataclass_transform(kw_only_default=True, frozen_default=True)
class RecordType(type):
    """A metaclass that turns annotated names into slots and keeps their defaults."""

    _fields: dict[str, Any]

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> RecordType:
        """Create the class. The fields of its bases come first."""
        own = namespace.get("__annotations__", {})
        fields = {key: default for base in bases for key, default in getattr(base, "_fields", {}).items()}
        fields |= {key: namespace.pop(key, _REQUIRED) for key in own}
        made = super().__new__(cls, name, bases, {**namespace, "__slots__": tuple(own)})
        made._fields = fields
        return made


class Record(metaclass=RecordType):
    """An immutable value, created with keyword arguments. Records are equal if all their fields are."""

    def __init__(self, **values: Any) -> None:
        put = object.__setattr__
        for name, default in type(self)._fields.items():
            value = values.pop(name, default)
            if value is _REQUIRED:
                raise TypeError(f"{type(self).__name__} needs {name}")
            put(self, name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(values))}")

    @classmethod
    def from_values(cls, values: Iterable[Any]) -> Self:
        """Return a record from all its values in declaration order, unchecked, for database rows."""
        made = cls.__new__(cls)
        put = object.__setattr__
        for name, value in zip(cls._fields, values, strict=True):
            put(made, name, value)
        return made

    def replace(self, **changes: Any) -> Self:
        fields = type(self)._fields
        if not changes.keys() <= fields.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(changes.keys() - fields.keys()))}")
        made = object.__new__(type(self))
        put = object.__setattr__
        for name in fields:
            put(made, name, changes[name] if name in changes else getattr(self, name))
        return made

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self)._fields}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; use replace({name}=…)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; {name} stays")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.as_dict().items())})"
