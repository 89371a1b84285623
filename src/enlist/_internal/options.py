"""Options: settings that come from a configuration file or from Python, checked the same way. Needs the extra `sim`.

A layer's options are the thing itself: `Dirichlet(alpha=0.3)` is what a file says and what splits the data. Bad input,
from either source, raises an `InputError` that names the key, the value given, what is allowed and the nearest key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pydantic

from enlist._internal import checks
from enlist._internal.text import brief
from enlist.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(pydantic.BaseModel)


class _Checked(ModelMetaclass):
    """Turns pydantic's report into an InputError when options are constructed in Python."""

    def __call__(self, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except pydantic.ValidationError as error:
            raise InputError(explain(error, self, self.__name__)) from None  # type: ignore[arg-type]
        except RecursionError:
            raise InputError(
                f"{self.__name__}: values are nested too deeply; a key holds a value or a table."
            ) from None


class Options(pydantic.BaseModel, metaclass=_Checked):
    """Base of all options: immutable, unknown keys refused.

    >>> class Knobs(Options):
    ...     alpha: float = pydantic.Field(0.5, gt=0, description="Spread.")
    >>> Knobs(alhpa=1.0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: Knobs: 'alhpa' is not a known key. Did you mean 'alpha'? Known: alpha.
    >>> Knobs(alpha=-1.0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: Knobs: alpha = -1.0, but input should be greater than 0.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)
    most_number: ClassVar[float] = checks.MOST
    """The largest number in these options; whole numbers must also fit into 64 bits."""

    @pydantic.model_validator(mode="after")
    def _in_range(self) -> Self:
        for name, field in type(self).model_fields.items():
            above_zero = any(getattr(bound, "gt", None) == 0 for bound in field.metadata)
            for number in _numbers(getattr(self, name)):
                if abs(number) > (checks.MOST_WHOLE if isinstance(number, int) else self.most_number):
                    most = f"{checks.MOST_WHOLE}" if isinstance(number, int) else f"{self.most_number:g}"
                    raise ValueError(f"{name} = {brief(number)}, but numbers go up to {most} in magnitude.")
                if above_zero and number < checks.LEAST:  # its inverse would be infinite
                    raise ValueError(f"{name} = {number!r}, but it must be at least {checks.LEAST:g}.")
        return self

    def not_default(self, default: Options | None = None) -> list[str]:
        """The keys that differ from their defaults; a table of another kind counts by its kind or name.

        >>> class Knobs(Options):
        ...     alpha: float = 0.5
        ...     beta: float = 1.0
        >>> Knobs(alpha=0.5, beta=2.0).not_default()
        ['beta']
        """
        found: list[str] = []
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            usual = field.get_default(call_default_factory=True) if default is None else getattr(default, name, None)
            if not isinstance(value, Options):
                found += [name] if value != usual else []
            elif isinstance(usual, Options) and type(value) is type(usual):
                found += [f"{name}.{key}" for key in value.not_default(usual)]
            else:
                tag = [key for key in ("kind", "name") if key in type(value).model_fields]
                others = [key for key in value.not_default() if key not in tag]
                found += [f"{name}.{key}" for key in (*tag[:1], *others)]
        return found

    @classmethod
    def parse(cls, values: Mapping[str, Any], source: str) -> Any:
        """Options from a mapping, such as a TOML file; errors begin with `source`."""
        try:
            return cls.model_validate(values)
        except pydantic.ValidationError as error:
            raise InputError(explain(error, cls, source)) from None
        except RecursionError:
            raise InputError(f"{source}: values are nested too deeply; a key holds a value or a table.") from None


def _numbers(value: Any) -> Iterator[int | float]:
    """The numbers in a value: itself, or those of a flat sequence."""
    for part in value if isinstance(value, tuple | list) else (value,):
        if isinstance(part, int | float) and not isinstance(part, bool):
            yield part


class GrownOptions(Options):
    """Options with keys added after version 0.1. They are written only if set, so that files of an older version mean
    the same, and its runs can be continued.

    >>> class Knobs(GrownOptions):
    ...     LATER = frozenset({"beta"})
    ...     alpha: float = 0.5
    ...     beta: float = 1.0
    >>> Knobs().model_dump(), Knobs(beta=2.0).model_dump()
    ({'alpha': 0.5}, {'alpha': 0.5, 'beta': 2.0})
    """

    LATER: ClassVar[frozenset[str]] = frozenset()

    @pydantic.model_serializer(mode="wrap")
    def _written(self, handler: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        same = {name for name in self.LATER if getattr(self, name) == fields[name].default}
        return {name: value for name, value in handler(self).items() if name not in same}


def explain(error: pydantic.ValidationError, model: type[pydantic.BaseModel], source: str) -> str:
    """Everything that is wrong, one line each.

    >>> class Knobs(pydantic.BaseModel):
    ...     alpha: float
    ...     beta: float
    >>> try:
    ...     Knobs(alpha="much")
    ... except pydantic.ValidationError as error:
    ...     print(explain(error, Knobs, "knobs.toml"))
    knobs.toml: 2 keys are wrong.
      alpha = 'much', but input should be a valid number...
      'beta' is missing.
    """
    lines = list(dict.fromkeys(_line(detail, model) for detail in error.errors(include_url=False)))
    if len(lines) == 1:
        return f"{source}: {lines[0]}"
    return f"{source}: {len(lines)} keys are wrong.\n" + "\n".join(f"  {line}" for line in lines)


def _line(detail: Any, model: type[pydantic.BaseModel]) -> str:
    location, given, kind = detail["loc"], detail["input"], detail["type"]
    owner, path = _resolve(model, location)
    if kind == "extra_forbidden":
        name, known = str(location[-1])[:200], sorted(owner.model_fields) if owner else []
        return f"'{path:.200}' is not a known key.{did_you_mean(name, known)} Known: {', '.join(known)}."
    if kind == "missing":
        return f"'{path}' is missing."
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        context = detail["ctx"]
        known = [word.strip(" '") for word in context.get("expected_tags", "").split(",") if word.strip()]
        key = context["discriminator"].strip("'")
        allowed = f" Allowed: {', '.join(sorted(known))}." if known else ""
        if kind == "union_tag_not_found":
            return f"{path or 'the table'} does not say which {key} it is.{allowed}"
        hint = did_you_mean(str(context["tag"]), known)
        return f"{path}.{key} = '{context['tag']:.80}' is not known.{hint}{allowed}"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{path}: {message}" if path else message
    return f"{path} = {brief(given)}, but {message[0].lower()}{message[1:]}."


def _resolve(
    model: type[pydantic.BaseModel], location: Sequence[str | int]
) -> tuple[type[pydantic.BaseModel] | None, str]:
    """The options class that holds the last key of `location`, and the key's path as a user writes it.

    Pydantic puts the tag of a union into the location; users never write it.
    """
    owner: type[pydantic.BaseModel] | None = model
    words: list[str] = []
    for position, step in enumerate(location):
        choices = (
            _models(owner.model_fields[words[-1]].annotation)
            if owner and words and words[-1] in owner.model_fields
            else []
        )
        tagged = [choice for choice in choices if step in _tags(choice)]
        if tagged:
            owner = tagged[0]
            continue
        if len(choices) == 1 and position > 0:
            owner = choices[0]
        words.append(str(step))
    return owner, ".".join(words)


def _models(annotation: Any) -> list[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models(part)]


def _tags(model: type[pydantic.BaseModel]) -> set[Any]:
    fields = (model.model_fields[name].default for name in ("kind", "name") if name in model.model_fields)
    return set(fields)
