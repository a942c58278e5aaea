"""Keys and values of every kind."""

from __future__ import annotations

import datetime
import uuid
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

# Surrogates included: a str may hold them, though UTF-8 may not.
texts = st.text(st.characters(), max_size=80)
integers = st.one_of(st.integers(), st.integers(-(2**70), 2**70), st.integers(-300, 300))

keys = st.recursive(
    st.one_of(texts, st.binary(max_size=80), integers),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=6,
)

offsets = st.timedeltas(
    datetime.timedelta(hours=-23, minutes=-59), datetime.timedelta(hours=23, minutes=59)
)
zones = st.one_of(
    st.none(),
    offsets.map(datetime.timezone),
    st.builds(datetime.timezone, offsets, st.text(st.characters(codec="utf-8"), max_size=8)),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns"]).map(ZoneInfo),
)
folds = st.sampled_from([0, 1])

scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    st.floats(),
    texts,
    st.binary(max_size=80),
    st.builds(
        lambda when, zone, fold: when.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, folds
    ),
    st.dates(),
    st.builds(
        lambda when, zone, fold: when.replace(tzinfo=zone, fold=fold), st.times(), zones, folds
    ),
    st.timedeltas(),
    st.decimals(),
    st.builds(
        uuid.UUID, int=st.integers(0, 2**128 - 1), is_safe=st.sampled_from(list(uuid.SafeUUID))
    ),
)

# A signalling NaN cannot be hashed, and a bytearray must not be.
hashable = st.recursive(
    scalars.filter(lambda value: not (hasattr(value, "is_snan") and value.is_snan())),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)
    ),
    max_leaves=4,
)

values = st.recursive(
    st.one_of(scalars, st.binary(max_size=20).map(bytearray)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(hashable, inner, max_size=5),
        st.sets(hashable, max_size=5),
        st.frozensets(hashable, max_size=5),
    ),
    max_leaves=20,
)
