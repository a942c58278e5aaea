"""Values as a store in memory keeps them, so that nobody can change a stored value.

An immutable value is kept as it is. A container or bytearray is kept as the bytes that
``crates/python/src/codec/mod.rs`` specifies, and each read builds a new object. So is what
`tuckbox.objects` encodes. Accepts and refuses what the extension does. Must not know stores.
"""

from __future__ import annotations

import struct
import sys
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Callable, NamedTuple, Optional, Union
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from tuckbox.errors import ValueTooLarge, ValueTypeError
from tuckbox.memory.keys import int_bytes, take_length, varint
from tuckbox.memory.messages import object_name, type_name, value_advice
from tuckbox.memory.numbers import INT_MAX, INT_MIN, plain
from tuckbox.objects import Objects

__all__ = ["Encoded", "Kept", "Rules", "decode", "encode", "from_bytes", "to_bytes"]

_BYTES, _NONE, _FALSE, _TRUE, _INT, _BIG_INT, _FLOAT, _STR, _STR_SURROGATES, _BYTEARRAY = range(10)
_LIST, _TUPLE, _DICT, _SET, _FROZENSET = range(10, 15)
_DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL, _UUID, _REGISTERED = range(15, 22)
# 22 to 24 are those of `tuckbox.objects`.
_PICKLED = 22
_COMPRESSED = 25
_SHORT_STR = 0x80
_SMALL_INT = 0xC0
_ZONE_NONE, _ZONE_OFFSET, _ZONE_NAMED_OFFSET, _ZONE_KEY = range(4)

_DEPTH_MAX = 64
_PLACE_LENGTH_MAX = 200
_TOO_LONG = "is too long"

_DATE_PARTS = struct.Struct("<HBB")
_CLOCK_PARTS = struct.Struct("<BBBIB")
_DELTA_PARTS = struct.Struct("<iii")
_FLOAT_PARTS = struct.Struct("<d")


class Encoded(bytes):
    """The bytes of what is not immutable, or was encoded by `Objects`. The first is the code."""

    __slots__ = ()


Kept = object
"""What a store keeps of a value: an immutable object, or `Encoded`."""


class Rules(NamedTuple):
    """How a handle stores values in a cache."""

    objects: Objects
    """What encodes those that are not plain."""
    cache_id: bytes
    """The id of the cache, for signatures."""
    bytes_max: int
    """The maximum length of a value."""
    is_exact: bool = False
    """Whether to refuse numbers of other libraries."""


def encode(value: Any, key: Any, encoded_key: bytes, rules: Rules) -> tuple[Kept, int]:
    """Return what to keep of a value, and its length in bytes.

    Args:
        value: The value.
        key: Its key, for messages.
        encoded_key: The bytes of the key, for signatures.
        rules: How to store it.

    Raises:
        ValueTypeError: The value is, or contains, an object that cannot be stored.
        ValueTooLarge: It is too long.
        Exception: Raised by a registered function, by pickling or by the codec.
    """
    try:
        kept, len_bytes = _whole(value, encoded_key, rules)
    except _Refusal as refusal:
        raised = refusal.raised(key, rules.bytes_max)
        raise raised from raised.__cause__
    if len_bytes > rules.bytes_max:
        raise ValueTooLarge(
            f"key {object_name(key)}: value is {len_bytes} bytes long, and the limit of this cache "
            f"is {rules.bytes_max} bytes; resize the cache, or store less"
        )
    return kept, len_bytes


def _whole(value: Any, encoded_key: bytes, rules: Rules) -> tuple[Kept, int]:
    """Encode a value in the order of `tuckbox.objects`, and compress it."""
    objects = rules.objects
    if type(value) is int and INT_MIN <= value <= INT_MAX:
        return value, _len_bytes(value)
    content = None
    if objects.takes == _EVERYTHING and type(value) not in objects.by_type:
        content = objects.encode(value, encoded_key, rules.cache_id)
    if content is None:
        try:
            kept = _plain(value, rules)
        except _Refusal as refusal:
            if objects.takes == _NOT_PLAIN and refusal.is_of_a_type:
                content = objects.encode(value, encoded_key, rules.cache_id)
            if content is None:
                raise
    if content is not None:
        kept = Encoded(bytes((content[0],)) + content[1])
    if objects.compress_min_bytes is not None:
        kept = _compressed(kept, objects, rules.bytes_max)
    return kept, _len_bytes(kept)


_NOT_PLAIN, _EVERYTHING = 1, 2
"""See ``Objects.takes``."""


def _plain(value: Any, rules: Rules) -> Kept:
    """Return what to keep of a value of plain and registered types."""
    if type(value) in _IMMUTABLE:
        if isinstance(value, (datetime, time)) and value.tzinfo is not None:
            _zone_bytes(value.tzinfo)
        kept = value
    else:
        encoder = _Encoder(rules)
        kept = None
        if type(value) not in _CODES and type(value) not in rules.objects.by_type:
            kept = encoder.plain(value)
        if kept is None:
            encoder.put(value)
            kept = Encoded(encoder.out)
    if type(kept) not in {str, bytes} and _len_bytes(kept) > rules.bytes_max:
        raise _Refusal(_TOO_LONG)
    return kept


def _compressed(kept: Kept, objects: Objects, bytes_max: int) -> Kept:
    if type(kept) is int and INT_MIN <= kept <= INT_MAX:
        return kept
    tag, raw = _item(kept)
    if not (objects.compress_min_bytes or 0) <= len(raw) <= bytes_max:
        return kept
    compressed = objects.compress(raw)
    if compressed is None:
        return kept
    number, content = compressed
    return Encoded(bytes((_COMPRESSED, number, tag)) + varint(len(raw)) + content)


def _item(kept: Kept) -> tuple[int, bytes]:
    """Return the code and the bytes that the extension stores."""
    if type(kept) is bytes:
        return _BYTES, kept
    if type(kept) is str and _is_utf8(kept):
        return _STR, kept.encode()
    if not isinstance(kept, Encoded):
        encoder = _Encoder(_ALL)
        encoder.put(kept)
        kept = Encoded(encoder.out)
    return kept[0], kept[1:]


def to_bytes(kept: Kept) -> bytes:
    """Return the bytes that stand for a kept value elsewhere: its code and its content."""
    code, content = _item(kept)
    return bytes((code,)) + content


def from_bytes(stored: bytes) -> Kept:
    """Return what `to_bytes` made bytes of. Damaged ones raise errors in `decode`, not here."""
    code = stored[0] if stored else -1
    try:
        if code == _BYTES:
            return stored[1:]
        if code == _STR:
            return stored[1:].decode()
        if code == _INT or code >= _SMALL_INT:  # As an int, which `incr` can change.
            return _Decoder(stored, _ALL.objects).item()
    except (IndexError, ValueError):
        pass
    return Encoded(stored)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _len_bytes(kept: Any) -> int:
    if type(kept) is str:
        return len(kept) if kept.isascii() else len(kept.encode("utf-8", "surrogatepass"))
    return len(kept) if isinstance(kept, bytes) else sys.getsizeof(kept)


_ALL = Rules(Objects(), b"", sys.maxsize)


def _is_storable(value: Any) -> bool:
    try:
        _plain(value, _ALL)
    except _Refusal:
        return False
    return True


class _Refusal(Exception):  # noqa: N818 - Converted before anybody sees it.
    """Why a value cannot be stored, and where in the value, from the inside outwards."""

    def __init__(
        self,
        why: Optional[str],
        thing: object = None,
        raised_by: Optional[ValueTypeError] = None,
    ) -> None:
        """``why`` follows the place in the message.

        It is None if the type of ``thing`` is the reason, or what a registered function raised;
        and _TOO_LONG if the length is.
        """
        super().__init__(why)
        self.why = why
        self.thing = thing
        self.raised_by = raised_by
        self.place: list[str] = []

    @property
    def is_of_a_type(self) -> bool:
        """Whether the value is refused because of what it is, so that pickling may store it."""
        return self.why is not _TOO_LONG and self.raised_by is None

    def raised(self, key: Any, bytes_max: int) -> Exception:
        entry = f"key {object_name(key)}: "
        if self.why is _TOO_LONG:
            return ValueTooLarge(
                f"{entry}value is too long: the limit of this cache is {bytes_max} bytes; resize "
                "the cache, or store less"
            )
        place = "value" + "".join(reversed(self.place))
        if len(place) > _PLACE_LENGTH_MAX:
            place = f"{place[:_PLACE_LENGTH_MAX]}..."
        if self.raised_by is not None:
            named = ValueTypeError(f"{entry}{place}: {self.raised_by}")
            named.__cause__ = self.raised_by.__cause__
            return named
        # Not before: advice about an enum encodes its value, which may contain the member.
        why = self.why or f"is of type {value_advice(self.thing, _is_storable)}"
        return ValueTypeError(f"{entry}{place} {why}")


class _Encoder:
    """Appends items to ``out``."""

    def __init__(self, rules: Rules) -> None:
        self.out = bytearray()
        self.bytes_max = rules.bytes_max
        self.is_exact = rules.is_exact or rules.objects.takes != 0
        self.by_type = rules.objects.by_type
        self.around: list[Any] = []
        """The containers around the item."""
        self.members_around = 0
        """In how many dict keys and set members the item is nested."""
        self.is_state = False
        """Whether it is in the state of a registered object, which may have memoryviews."""

    def put(self, value: Any) -> None:
        method = _CODES.get(type(value))
        if method is not None:
            method(self, value)
        elif type(value) in self.by_type:
            self.put_object(value)
        elif self.is_state and type(value) is memoryview:
            # A bytearray, so that what is made of it can be changed.
            self.put_bytearray(bytearray(value))
        elif (known := self.plain(value)) is not None:
            self.put(known)
        else:
            raise _Refusal(None, value)

    def plain(self, value: Any) -> Any:
        """Return the plain object that is stored in place of a number of another library."""
        if self.is_exact:
            return None
        known = plain(value)
        if known is None or not self.members_around:
            return known
        # A dict with two keys that become one could not be decoded.
        return known if hash(value) == hash(known) and value == known else None

    def put_none(self, _: None) -> None:
        self.out.append(_NONE)

    def put_bool(self, value: bool) -> None:
        self.out.append(_TRUE if value else _FALSE)

    def put_int(self, number: int) -> None:
        if 0 <= number < 64:
            self.out.append(_SMALL_INT + number)
        elif INT_MIN <= number <= INT_MAX:
            self.out.append(_INT)
            self.out += varint(number << 1 if number >= 0 else -(number << 1) - 1)
        else:
            self.put_leaf(_BIG_INT, int_bytes(number))

    def put_float(self, number: float) -> None:
        self.out.append(_FLOAT)
        self.out += _FLOAT_PARTS.pack(number)

    def put_str(self, text: str) -> None:
        try:
            content = text.encode()
        except UnicodeEncodeError:
            self.put_leaf(_STR_SURROGATES, text.encode("utf-8", "surrogatepass"))
            return
        if len(content) < _SMALL_INT - _SHORT_STR:
            self.out.append(_SHORT_STR + len(content))
            self.out += content
        else:
            self.put_leaf(_STR, content)

    def put_bytes(self, content: bytes) -> None:
        self.put_leaf(_BYTES, content)

    def put_bytearray(self, content: bytearray) -> None:
        self.put_leaf(_BYTEARRAY, content)

    def put_leaf(self, code: int, content: Union[bytes, bytearray]) -> None:
        if len(content) > self.bytes_max:
            raise _Refusal(_TOO_LONG)
        self.out.append(code)
        self.out += varint(len(content))
        self.out += content
        self.check_length()

    def check_length(self) -> None:
        # A small container can contain another one many times, and so have a long encoding.
        if len(self.out) > self.bytes_max:
            raise _Refusal(_TOO_LONG)

    def enter(self, container: Any, code: int, count: int) -> None:
        self.descend(container)
        self.out.append(code)
        self.out += varint(count)

    def descend(self, container: Any) -> None:
        if len(self.around) == _DEPTH_MAX:
            # A cycle always reaches the maximum depth, so it is enough to look for one here.
            if any(other is container for other in self.around):
                name = type_name(type(container))
                raise _Refusal(
                    f"is a {name} that contains itself, which cannot be stored; remove the cycle"
                )
            raise _Refusal(f"is nested more than {_DEPTH_MAX} containers deep; flatten the value")
        self.around.append(container)

    def leave(self) -> None:
        self.around.pop()
        self.check_length()

    def put_object(self, thing: Any) -> None:
        name, state_of = self.by_type[type(thing)]
        try:
            state = state_of(thing)
        except ValueTypeError as error:
            raise _Refusal(None, raised_by=error) from None
        self.descend(thing)
        self.put_leaf(_REGISTERED, name.encode())
        was_state, self.is_state = self.is_state, True
        self.put(state)
        self.is_state = was_state
        self.leave()

    def put_sequence(self, container: Union[list[Any], tuple[Any, ...]]) -> None:
        # A copy, because another thread may change the list meanwhile.
        items = tuple(container)
        self.enter(container, _LIST if type(container) is list else _TUPLE, len(items))
        index = 0
        try:
            for index, item in enumerate(items):  # noqa: B007 - For the message.
                self.put(item)
        except _Refusal as refusal:
            refusal.place.append(f"[{index}]")
            raise
        self.leave()

    def put_dict(self, container: dict[Any, Any]) -> None:
        pairs = list(container.items())
        self.enter(container, _DICT, len(pairs))
        for key, value in pairs:
            self.put_member(" key ", key)
            try:
                self.put(value)
            except _Refusal as refusal:
                refusal.place.append(f"[{object_name(key)}]")
                raise
        self.leave()

    def put_set(self, container: Union[set[Any], frozenset[Any]]) -> None:
        members = list(container)
        self.enter(container, _SET if type(container) is set else _FROZENSET, len(members))
        for member in members:
            self.put_member(" member ", member)
        self.leave()

    def put_member(self, what: str, member: Any) -> None:
        self.members_around += 1
        try:
            self.put(member)
        except _Refusal as refusal:
            refusal.place.append(f"{what}{object_name(member)}")
            raise
        self.members_around -= 1

    def put_datetime(self, moment: datetime) -> None:
        self.out.append(_DATETIME)
        self.out += _date_bytes(moment) + _clock_bytes(moment) + _zone_bytes(moment.tzinfo)

    def put_date(self, day: date) -> None:
        self.out.append(_DATE)
        self.out += _date_bytes(day)

    def put_time(self, moment: time) -> None:
        self.out.append(_TIME)
        self.out += _clock_bytes(moment) + _zone_bytes(moment.tzinfo)

    def put_timedelta(self, delta: timedelta) -> None:
        self.out.append(_TIMEDELTA)
        self.out += _delta_bytes(delta)

    def put_decimal(self, number: Decimal) -> None:
        self.put_leaf(_DECIMAL, str(number).encode())

    def put_uuid(self, value: UUID) -> None:
        self.out.append(_UUID)
        self.out += value.bytes
        self.out.append(_SAFE.index(value.is_safe))


_SAFE = (SafeUUID.unknown, SafeUUID.safe, SafeUUID.unsafe)
_CODES: dict[type, Callable[[_Encoder, Any], None]] = {
    type(None): _Encoder.put_none,
    bool: _Encoder.put_bool,
    int: _Encoder.put_int,
    float: _Encoder.put_float,
    str: _Encoder.put_str,
    bytes: _Encoder.put_bytes,
    bytearray: _Encoder.put_bytearray,
    list: _Encoder.put_sequence,
    tuple: _Encoder.put_sequence,
    dict: _Encoder.put_dict,
    set: _Encoder.put_set,
    frozenset: _Encoder.put_set,
    datetime: _Encoder.put_datetime,
    date: _Encoder.put_date,
    time: _Encoder.put_time,
    timedelta: _Encoder.put_timedelta,
    Decimal: _Encoder.put_decimal,
    UUID: _Encoder.put_uuid,
}
_IMMUTABLE = frozenset(_CODES) - {bytearray, list, tuple, dict, set, frozenset}


def _date_bytes(day: date) -> bytes:
    return _DATE_PARTS.pack(day.year, day.month, day.day)


def _clock_bytes(moment: Union[datetime, time]) -> bytes:
    packed = _CLOCK_PARTS.pack(
        moment.hour, moment.minute, moment.second, moment.microsecond, moment.fold
    )
    # Three bytes for the microsecond.
    return packed[:6] + packed[7:]


def _delta_bytes(delta: timedelta) -> bytes:
    return _DELTA_PARTS.pack(delta.days, delta.seconds, delta.microseconds)


def _zone_bytes(zone: Optional[tzinfo]) -> bytes:
    if zone is None:
        return bytes((_ZONE_NONE,))
    if type(zone) is timezone:
        # As pickle does: the offset, and the name if one was given.
        offset, *names = zone.__getinitargs__()  # type: ignore[attr-defined]
        if names:
            return bytes((_ZONE_NAMED_OFFSET,)) + _delta_bytes(offset) + _text_bytes(names[0])
        return bytes((_ZONE_OFFSET,)) + _delta_bytes(offset)
    if type(zone) is ZoneInfo and zone.key is not None:
        return bytes((_ZONE_KEY,)) + _text_bytes(zone.key)
    raise _Refusal(
        f"has a time zone of type {type_name(type(zone))}, which cannot be stored; use a "
        "datetime.timezone, or a zoneinfo.ZoneInfo with a key"
    )


def _text_bytes(text: str) -> bytes:
    content = text.encode()
    return varint(len(content)) + content


def decode(kept: Kept, encoded_key: bytes, objects: Objects, cache_id: bytes) -> Any:
    """Return the value of which this is kept. A container is a new object each time.

    Args:
        kept: What `encode` returned.
        encoded_key: The bytes of the key.
        objects: What decodes values that are not plain.
        cache_id: The id of the cache.

    Raises:
        EntryCorrupt: The value is not plain, and cannot be decoded.
        Exception: Raised by unpickling.
    """
    if type(kept) is not Encoded:
        return kept
    code = kept[0]
    if code < _PICKLED:
        return _Decoder(kept, objects).item()
    if code != _COMPRESSED:
        return objects.decode(code, kept[1:], encoded_key, cache_id)
    length, place = take_length(kept, 3)
    raw = objects.decompress(kept[1], kept[place:], length)
    if kept[2] in {_BYTES, _STR}:
        return raw if kept[2] == _BYTES else raw.decode()
    return decode(Encoded(kept[2:3] + raw), encoded_key, objects, cache_id)


class _Decoder:
    """Takes items from the bytes of `Encoded`, which nobody else wrote."""

    __slots__ = ("data", "objects", "place")

    def __init__(self, data: bytes, objects: Objects) -> None:
        self.data = data
        self.objects = objects
        self.place = 0

    def item(self) -> Any:
        code = self.data[self.place]
        self.place += 1
        if code >= _SMALL_INT:
            return code - _SMALL_INT
        if code >= _SHORT_STR:
            return self.take(code - _SHORT_STR).decode()
        return _TAKERS[code](self)

    def take(self, length: int) -> bytes:
        start = self.place
        self.place = start + length
        return bytes.__getitem__(self.data, slice(start, self.place))

    def take_length(self) -> int:
        number, self.place = take_length(self.data, self.place)
        return number

    def take_content(self) -> bytes:
        return self.take(self.take_length())

    def take_int(self) -> int:
        number = self.take_length()
        return (number >> 1) ^ -(number & 1)

    def take_float(self) -> float:
        (number,) = _FLOAT_PARTS.unpack(self.take(8))
        return number  # type: ignore[no-any-return]

    def take_list(self) -> list[Any]:
        return [self.item() for _ in range(self.take_length())]

    def take_dict(self) -> dict[Any, Any]:
        # The key is built first.
        return {self.item(): self.item() for _ in range(self.take_length())}

    def take_date(self) -> date:
        return date(*_DATE_PARTS.unpack(self.take(4)))

    def take_datetime(self) -> datetime:
        year, month, day = _DATE_PARTS.unpack(self.take(4))
        hour, minute, second, us, fold = self.take_clock()
        zone = self.take_zone()
        return datetime(year, month, day, hour, minute, second, us, zone, fold=fold)

    def take_time(self) -> time:
        hour, minute, second, us, fold = self.take_clock()
        return time(hour, minute, second, us, self.take_zone(), fold=fold)

    def take_clock(self) -> tuple[int, ...]:
        packed = self.take(7)
        return _CLOCK_PARTS.unpack(packed[:6] + b"\0" + packed[6:])

    def take_timedelta(self) -> timedelta:
        return timedelta(*_DELTA_PARTS.unpack(self.take(12)))

    def take_zone(self) -> Optional[tzinfo]:
        kind = self.take(1)[0]
        if kind == _ZONE_NONE:
            return None
        if kind == _ZONE_KEY:
            return ZoneInfo(self.take_content().decode())
        offset = self.take_timedelta()
        if kind == _ZONE_OFFSET:
            return timezone(offset)
        return timezone(offset, self.take_content().decode())

    def take_uuid(self) -> UUID:
        return UUID(bytes=self.take(16), is_safe=_SAFE[self.take(1)[0]])

    def take_object(self) -> Any:
        name = self.take_content().decode()
        make = self.objects.by_name.get(name)
        if make is None:
            raise self.objects.unregistered(name)
        return make(self.item())


_TAKERS: dict[int, Callable[[_Decoder], Any]] = {
    _BYTES: _Decoder.take_content,
    _NONE: lambda _: None,
    _FALSE: lambda _: False,
    _TRUE: lambda _: True,
    _INT: _Decoder.take_int,
    _BIG_INT: lambda decoder: int.from_bytes(decoder.take_content(), "little", signed=True),
    _FLOAT: _Decoder.take_float,
    _STR: lambda decoder: decoder.take_content().decode(),
    _STR_SURROGATES: lambda decoder: decoder.take_content().decode("utf-8", "surrogatepass"),
    _BYTEARRAY: lambda decoder: bytearray(decoder.take_content()),
    _LIST: _Decoder.take_list,
    _TUPLE: lambda decoder: tuple(decoder.take_list()),
    _DICT: _Decoder.take_dict,
    _SET: lambda decoder: set(decoder.take_list()),
    _FROZENSET: lambda decoder: frozenset(decoder.take_list()),
    _DATETIME: _Decoder.take_datetime,
    _DATE: _Decoder.take_date,
    _TIME: _Decoder.take_time,
    _TIMEDELTA: _Decoder.take_timedelta,
    _DECIMAL: lambda decoder: Decimal(decoder.take_content().decode()),
    _UUID: _Decoder.take_uuid,
    _REGISTERED: _Decoder.take_object,
}
