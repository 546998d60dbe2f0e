"""Files of ``torch.save`` read as data: no code that a file names is run, and nothing of this process is changed.

A pickle is a program. The reader here carries out the operations that Tensors, numbers, strings and their containers
need. Names mean the entries of a table; what of them is called looks at its arguments first.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict, defaultdict
from typing import Any, ClassVar

import numpy as np

from ._dtypes import ALL, Size, dtype
from ._tensor import Tensor, restored, viewed

# What a file may name. Exactly these pairs: an attribute of a module may lead to any other module ("np.os.system").
_NAMES = {
    "collections": "OrderedDict defaultdict",
    "builtins": "set frozenset dict list int float str bool bytes",
    "qkv.torch": "Tensor",
    "qkv.torch.nn.parameter": "Parameter",
    "qkv.torch._dtypes": " ".join(["Size", *ALL]),  # earlier versions stored dtypes by their names
    "numpy": "ndarray dtype",
}
_OPERATIONS = (
    "MARK STOP POP POP_MARK DUP FLOAT INT BININT BININT1 BININT2 LONG LONG1 LONG4 BINFLOAT NONE NEWTRUE NEWFALSE "
    "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE PROTO FRAME "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT SETITEM SETITEMS "
    "EMPTY_SET ADDITEMS FROZENSET GLOBAL STACK_GLOBAL REDUCE NEWOBJ BUILD"
)
# NumPy's dtypes of plain numbers, and the state of one.
_NUMBERS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
_PLAIN_STATE = (None, None, None, -1, -1, 0)
_KEYS = (str, bytes, int, float, frozenset, Tensor, dtype, type(None))
_LARGEST_KEY = 1000  # parts of a key: its hash visits each of them


class _Refused(pickle.UnpicklingError):
    pass


def _refused(found: str) -> _Refused:
    return _Refused(
        f"load: the file must hold Tensors, numbers, strings and lists or dicts of them; got {found}. "
        "weights_only=False runs the code of whoever wrote the file"
    )


def _check(fits: bool, what: str) -> None:
    if not fits:
        raise _refused(f"{what} of another form than torch.save writes")


def _check_keys(keys: Any) -> None:
    left = [*keys]
    parts = len(left) + _LARGEST_KEY
    while left:
        key = left.pop()
        parts -= 1
        if isinstance(key, tuple):
            _check(len(key) <= parts, "a key")
            left.extend(key)
        else:
            _check(isinstance(key, _KEYS), "a key")


def _check_numbers(shape: Any, kind: Any, data: Any) -> None:
    _check(isinstance(kind, np.dtype) and kind.str[1:] in _NUMBERS, "an array")
    _check(
        type(shape) is tuple and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape),
        "an array",
    )
    size = kind.itemsize
    for n in shape:
        size *= n
    _check(type(data) in (bytes, bytearray) and len(data) == size, "an array")


class _Reader(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Any]] = {
        code: pickle._Unpickler.dispatch[code]
        for code in (getattr(pickle, n)[0] for n in _OPERATIONS.split())
    }

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        # Arrays and dtypes that wait for their content, by id.
        self._unfinished: dict[int, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        module = {"__builtin__": "builtins"}.get(module, module)
        if name in _NAMES.get(module, "").split():
            return super().find_class(module, name)
        if (called := _FUNCTIONS.get((module.replace("numpy.core", "numpy._core"), name))) is not None:
            return called
        raise _refused(f"{module}.{name}")

    # What is called.

    def _tensor(self, cls: Any, numbers: Any, kind: Any, requires_grad: Any) -> Any:
        _check(isinstance(cls, type) and issubclass(cls, Tensor), "a Tensor")
        _check(
            any(kind is d for d in ALL.values()) and kind.core != "" and type(requires_grad) is bool,
            "a Tensor",
        )
        _check(type(numbers) is np.ndarray and id(numbers) not in self._unfinished, "a Tensor")
        _check(numbers.dtype.newbyteorder("=") == np.dtype(kind.core), "a Tensor")
        return restored(cls, numbers, kind, requires_grad)

    def _viewed(
        self, cls: Any, memory: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any
    ) -> Any:
        _check(isinstance(cls, type) and issubclass(cls, Tensor), "a Tensor")
        _check(
            type(memory) is Tensor and not memory.requires_grad and type(requires_grad) is bool, "a Tensor"
        )
        for numbers in ((offset,), shape, strides):
            _check(type(numbers) is tuple and len(numbers) <= 32, "a Tensor")
            _check(all(type(n) is int and 0 <= n < 1 << 63 for n in numbers), "a Tensor")
        return viewed(
            cls, memory, offset, shape, strides, requires_grad
        )  # which checks that all is in the memory

    def _kind(self, name: Any) -> Any:
        _check(type(name) is str and name in ALL, "a dtype")
        return ALL[name]

    def _empty_array(self, cls: Any, shape: Any, typecode: Any) -> Any:
        _check(cls is np.ndarray and shape == (0,) and typecode == b"b", "an array")
        return self._waiting(np.empty(0, np.int8))

    def _array_of(self, data: Any, kind: Any, shape: Any, order: Any) -> Any:
        _check(order in ("C", "F"), "an array")
        _check_numbers(shape, kind, data)
        return np.frombuffer(data, kind).reshape(shape, order=order).copy(order)

    def _encoded(self, text: Any, encoding: Any) -> Any:
        _check(type(text) is str and encoding == "latin1", "bytes")
        return text.encode("latin1")

    def _dtype(self, name: Any, align: Any, copy: Any) -> Any:
        _check(name in _NUMBERS and align is False and copy is True, "an array's dtype")
        return self._waiting(np.dtype(name, copy=True))

    def _bytes(self) -> bytes:
        return b""

    def _set(self, items: Any) -> set[Any]:
        _check(type(items) is list, "a set")
        _check_keys(items)
        return set(items)

    def _frozen(self, items: Any) -> frozenset[Any]:
        return frozenset(self._set(items))

    def _ordered(self) -> Any:
        return OrderedDict()

    def _default(self, factory: Any = None) -> Any:
        _check(factory is None or isinstance(factory, type), "a defaultdict")
        return defaultdict(factory)

    def _waiting(self, value: Any) -> Any:
        self._unfinished[id(value)] = value
        return value

    # Operations that would call, or change, anything they meet.

    def load_reduce(self) -> None:
        arguments, f = self.stack.pop(), self.stack[-1]
        known: list[tuple[Any, Any]] = [*_CLASSES.items(), *((g, g) for g in _FUNCTIONS.values())]
        called = next((g for key, g in known if key is f), None)
        if called is None or type(arguments) is not tuple:
            raise _refused("a call of another form than torch.save writes")
        self.stack[-1] = called(self, *arguments)

    def load_newobj(self) -> None:
        arguments, cls = self.stack.pop(), self.stack.pop()
        _check(cls is Size and type(arguments) is tuple and len(arguments) == 1, "an object")
        _check(type(arguments[0]) is tuple and all(type(n) is int for n in arguments[0]), "a Size")
        self.append(Size(arguments[0]))

    def load_build(self) -> None:
        state, value = self.stack.pop(), self.stack[-1]
        if self._unfinished.pop(id(value), None) is not None:
            _check(type(state) is tuple, "an array")
            if isinstance(value, np.dtype):
                fits = state[0] == 3 and state[1] in ("<", ">", "|", "=") and state[2:] == _PLAIN_STATE
                _check(fits, "an array's dtype")
            else:
                version, shape, kind, by_columns, data = state
                _check(version == 1 and type(by_columns) is bool, "an array")
                _check_numbers(shape, kind, data)
                state = (version, shape, kind, by_columns, bytes(data))
            value.__setstate__(state)
        else:  # of a state dict of PyTorch's
            _check(
                type(value) is OrderedDict and type(state) is dict and list(state) == ["_metadata"], "a state"
            )
            value._metadata = state["_metadata"]

    def load_bytearray8(self) -> None:
        size = int.from_bytes(self.read(8), "little")
        self.append(bytearray(self.read(size)))

    def load_append(self) -> None:
        value = self.stack.pop()
        _check(type(self.stack[-1]) is list, "a list")
        self.stack[-1].append(value)

    def load_appends(self) -> None:
        items = self.pop_mark()
        _check(type(self.stack[-1]) is list, "a list")
        self.stack[-1].extend(items)

    def _put(self, items: list[Any]) -> None:
        target = self.stack[-1]
        _check(type(target) in (dict, OrderedDict, defaultdict), "a dict")
        _check_keys(items[::2])
        for i in range(0, len(items), 2):
            target[items[i]] = items[i + 1]

    def load_setitem(self) -> None:
        value = self.stack.pop()
        self._put([self.stack.pop(), value])

    def load_setitems(self) -> None:
        self._put(self.pop_mark())

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._put(items)

    def load_additems(self) -> None:
        items = self.pop_mark()
        _check(type(self.stack[-1]) is set, "a set")
        self.stack[-1].update(self._set(items))

    def load_frozenset(self) -> None:
        items = self.pop_mark()
        self.append(self._frozen(items))


_CHECKED = "reduce newobj build bytearray8 append appends setitem setitems dict additems frozenset"
for _name in _CHECKED.split():
    _Reader.dispatch[getattr(pickle, _name.upper())[0]] = getattr(_Reader, f"load_{_name}")

_CLASSES = {
    OrderedDict: _Reader._ordered,
    defaultdict: _Reader._default,
    set: _Reader._set,
    frozenset: _Reader._frozen,
    bytes: _Reader._bytes,
    np.dtype: _Reader._dtype,
}
_FUNCTIONS = {
    ("qkv.torch._tensor", "restored"): _Reader._tensor,
    ("qkv.torch._tensor", "viewed"): _Reader._viewed,
    ("qkv.torch._dtypes", "named"): _Reader._kind,
    ("numpy._core.multiarray", "_reconstruct"): _Reader._empty_array,
    ("numpy._core.numeric", "_frombuffer"): _Reader._array_of,
    ("_codecs", "encode"): _Reader._encoded,
}


def read(content: bytes) -> Any:
    """Return what a file of ``torch.save`` holds."""
    try:
        return _Reader(io.BytesIO(content)).load()
    except (_Refused, MemoryError):
        raise
    except Exception as error:
        raise pickle.UnpicklingError(
            f"load: f must be a whole file that torch.save wrote; got {type(error).__name__}: {error}"
        ) from error
