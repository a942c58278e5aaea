"""Arrays and tables as their own buffers: NumPy, pandas and PyArrow.

Knows how each becomes plain data with a ``memoryview``, and back from a ``bytearray``, which may be
forged. Imports a library only if the class comes from it. Must not know names, caches or files.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any, Callable, Optional

from tuckbox.errors import EntryCorrupt, InvalidArgument, ValueTypeError

__all__ = ["buffers_of"]

_Recipe = tuple[tuple[type, ...], Callable[[Any], Any], Callable[[Any], Any]]

_ARROW_MIN = (14, 0, 1)
"""Older versions unpickle what an Arrow schema contains (CVE-2023-47248)."""


def buffers_of(cls: type) -> Optional[_Recipe]:
    """Return the types, the encoding and the decoding function of a class; None if it is another.

    Raises:
        InvalidArgument: The library is missing, too old, or the class cannot be stored.
    """
    library = cls.__module__.partition(".")[0]
    if library == "numpy":
        return _numpy(cls)
    if library == "pandas":
        return _pandas(cls)
    if library == "pyarrow":
        return _arrow(cls)
    return None


# NumPy.


def _numpy(cls: type) -> _Recipe | None:
    import numpy as np

    if cls is np.ndarray:
        return (cls,), _array_state, _array
    if not issubclass(cls, np.generic):
        return None
    if issubclass(cls, (np.object_, np.void)):
        raise InvalidArgument(f"{cls.__name__} scalars cannot be stored; store an array of them")
    kinds = {kind for kind in np.sctypeDict.values() if issubclass(kind, cls)}
    kinds -= {np.object_, np.void}
    return tuple(kinds), _scalar_state, _scalar


def _array_state(array: Any) -> Any:
    import numpy as np

    order: Any = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    flat = np.asarray(array, order=order).reshape(-1, order=order)
    if flat.nbytes == 0:
        return _described(array.dtype), array.shape, order, b""
    return _described(array.dtype), array.shape, order, flat.view(np.uint8).data


def _array(state: Any) -> Any:
    import numpy as np

    described, shape, order, data = state
    dtype = _dtype(described)
    if type(shape) is not tuple or order not in {"C", "F"}:
        raise EntryCorrupt("its shape is invalid; delete it")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise EntryCorrupt("its shape does not have the size of its data; delete it")
    if len(data) == 0:
        return np.zeros(shape, dtype, order)
    return np.ndarray(shape, dtype, data, order=order)


def _scalar_state(scalar: Any) -> Any:
    import numpy as np

    array = np.asarray(scalar)
    return _described(array.dtype), array.tobytes()


def _scalar(state: Any) -> Any:
    described, data = state
    array: Any = _array((described, (), "C", bytearray(data)))
    return array[()]


@functools.lru_cache(maxsize=256)
def _described(dtype: Any) -> Any:
    from numpy.lib import format as form

    described = None if dtype.hasobject else form.dtype_to_descr(dtype)
    if described is None or form.descr_to_dtype(described) != dtype:
        raise ValueTypeError(
            f"an array with dtype {dtype}, which cannot be stored: its elements are no plain "
            "memory; store its tolist(), or convert it with astype(...)"
        )
    return described


def _dtype(described: Any) -> Any:
    from numpy.lib import format as form

    dtype = form.descr_to_dtype(described)
    if dtype.hasobject:
        raise EntryCorrupt("its dtype contains objects; delete it")
    return dtype


# PyArrow and pandas.


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise InvalidArgument(
            "pandas objects are stored by pyarrow, which is not installed; run: pip install pyarrow"
        ) from None
    version = tuple(int(part) for part in pa.__version__.split(".")[:3] if part.isdigit())
    if version < _ARROW_MIN:
        raise InvalidArgument(
            f"pyarrow {pa.__version__} can run code that a file contains; install "
            f"{'.'.join(map(str, _ARROW_MIN))} or later"
        )
    return pa


def _arrow(cls: type) -> _Recipe | None:
    arrow = _pyarrow()
    if cls is arrow.Table:
        return (cls,), _stream_of, _table
    if cls is arrow.RecordBatch:
        return (cls,), _stream_of, _batch
    raise InvalidArgument(
        f"{cls.__name__} cannot be stored; register and store a pyarrow.Table or RecordBatch"
    )


def _stream_of(table: Any) -> memoryview:
    """Return an Arrow IPC stream."""
    arrow = sys.modules["pyarrow"]
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return memoryview(sink.getvalue()).cast("B")


def _table(data: Any) -> Any:
    arrow = sys.modules["pyarrow"]
    with arrow.ipc.open_stream(arrow.py_buffer(data)) as reader:
        table = reader.read_all()
    # Lengths and offsets that lead out of the buffers would crash the process later.
    table.validate(full=True)
    return table


def _batch(data: Any) -> Any:
    batches = _table(data).to_batches()
    if len(batches) != 1:
        raise EntryCorrupt(f"it has {len(batches)} batches in place of one; delete it")
    return batches[0]


def _pandas(cls: type) -> _Recipe | None:
    import pandas as pd

    _pyarrow()
    if cls is pd.DataFrame:
        return (cls,), _frame_state, lambda data: _table(data).to_pandas()
    if cls is pd.Series:
        return (cls,), _series_state, _series
    return None


def _frame_state(frame: Any) -> memoryview:
    arrow = _pyarrow()
    try:
        return _stream_of(arrow.Table.from_pandas(frame))
    except (arrow.ArrowException, ValueError, TypeError) as error:
        raise ValueTypeError(
            f"a {type(frame).__name__} that Arrow cannot hold ({error}); convert its columns"
        ) from error


def _series_state(series: Any) -> Any:
    return series.name, _frame_state(series.to_frame("values"))


def _series(state: Any) -> Any:
    name, data = state
    return _table(data).to_pandas()["values"].rename(name)
