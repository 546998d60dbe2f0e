"""``torch.utils.data``: data sets, samplers, and a loader that draws the batches that PyTorch draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import Any

import numpy as np

from ...._words.errors import shown
from ..._creation import tensor
from ..._random import Generator, default_generator, randint, random_number, randperm
from ..._settings import constructor, undefined
from ..._shaping import stack
from ..._tensor import Core, refuse_attribute
from . import distributed as distributed


class _Of:
    """What may be written with the kind of its entries, as in ``Dataset[int]``."""

    def __class_getitem__(cls, item):
        return cls


class Dataset(_Of):
    """Base of data sets: a subclass defines ``__getitem__`` and ``__len__``.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> class Squares(torch.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, i):
    ...         return torch.tensor(i), torch.tensor(i**2)
    >>> next(iter(torch.utils.data.DataLoader(Squares(), batch_size=3)))
    [tensor([0, 1, 2]), tensor([0, 1, 4])]
    """

    __getitem__ = undefined("__getitem__")


class TensorDataset(Dataset):
    """Rows of Tensors of equal length."""

    def __init__(self, *tensors) -> None:
        if any(len(t) != len(tensors[0]) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """Some entries of a data set."""

    def __init__(self, dataset, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        several = isinstance(index, list)
        return self.dataset[[self.indices[i] for i in index] if several else self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset, lengths: Sequence[Any], generator: Generator | None = None) -> list[Subset]:
    """Parts of a data set of these sizes, or shares of 1, chosen at random."""
    sizes = [int(n) for n in lengths]
    if all(isinstance(n, float) for n in lengths) and abs(sum(lengths) - 1) < 1e-6:
        sizes = [int(len(dataset) * n) for n in lengths]
        for i in range(len(dataset) - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(len(dataset), generator=generator or default_generator).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, sizes, strict=True)]


def _count(name: str, value) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={shown(value)}")
    return value


class Sampler(_Of):
    """Base of what says in which order entries are taken."""

    def __init__(self, data_source=None) -> None:
        self.data_source = data_source

    __iter__ = undefined("__iter__")

    def __len__(self) -> int:
        return len(self.data_source)


class SequentialSampler(Sampler):
    """In order."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """In random order; a stream of its own is seeded by a number of the common one."""

    __init__ = constructor("data_source, replacement=False, num_samples=None, generator=None")

    def _configure(self, data_source, replacement, num_samples, generator) -> None:
        super().__init__(data_source)
        self.replacement, self.generator = replacement, generator
        self.num_samples = _count("num_samples", len(data_source) if num_samples is None else num_samples)

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        n, rng = len(self.data_source), self.generator or Generator().manual_seed(random_number())
        most = 32 if self.replacement else n
        for _ in range(self.num_samples // most):
            yield from self._some(n, 32, rng)
        rest = self.num_samples % most
        yield from self._some(n, rest, rng)[:rest]  # one more permutation, even where none of it is taken

    def _some(self, n: int, count: int, rng: Generator) -> list[int]:
        drawn = randint(n, (count,), generator=rng) if self.replacement else randperm(n, generator=rng)
        return drawn.tolist()  # type: ignore[no-any-return]


class BatchSampler(Sampler):
    """Lists of ``batch_size`` entries."""

    __init__ = constructor("sampler, batch_size, drop_last")

    def _configure(self, sampler, batch_size, drop_last) -> None:
        super().__init__(sampler)
        self.sampler, self.batch_size = sampler, _count("batch_size", batch_size)
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        rest = iter(self.sampler)
        while batch := list(islice(rest, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


def default_collate(batch: Sequence[Any]):
    """Entries as one: Tensors and numbers are stacked, tuples and dicts part by part."""
    if isinstance(batch, Mapping) or not len(batch):
        raise TypeError(f"default_collate: batch must be a list of entries; got {shown(batch)}")
    first = batch[0]
    if isinstance(first, (Core, np.ndarray)):
        return stack([entry if isinstance(entry, Core) else tensor(entry) for entry in batch])
    if isinstance(first, float):
        return tensor(list(batch), dtype="DoubleTensor")
    if isinstance(first, (int, np.generic)):
        return tensor(np.asarray(batch))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([entry[key] for entry in batch]) for key in first}
    if isinstance(first, Sequence):
        if any(len(entry) != len(first) for entry in batch):
            raise RuntimeError(
                "default_collate: entries must be equally long because their parts are put together"
            )
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    kinds = "Tensors, numpy arrays, numbers, dicts or lists"
    raise TypeError(f"default_collate: batch must contain {kinds}; got {type(first).__name__}")


class DataLoader(_Of):
    """Batches of a data set; with ``shuffle`` in the order that PyTorch draws. It reads in this process.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> data = torch.utils.data.TensorDataset(torch.arange(4.0), torch.arange(4))
    >>> for x, y in torch.utils.data.DataLoader(data, batch_size=3):
    ...     print(x, y)
    tensor([0., 1., 2.]) tensor([0, 1, 2])
    tensor([3.]) tensor([3])
    """

    __init__ = constructor(
        "dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, "
        "collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, "
        "multiprocessing_context=None, generator=None, *, prefetch_factor=None, "
        "persistent_workers=False, pin_memory_device='', in_order=True"
    )

    def _configure(self: Any, **given) -> None:
        self._check(**given)
        vars(self).update(given)
        if self.sampler is None:
            shuffled = partial(RandomSampler, generator=self.generator)
            self.sampler = (shuffled if self.shuffle else SequentialSampler)(self.dataset)
        if self.batch_sampler is not None:
            self.batch_size = None
        elif self.batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, self.batch_size, self.drop_last)
        batched = self.batch_size is not None or self.batch_sampler is not None
        self.collate_fn = self.collate_fn or (default_collate if batched else lambda entry: entry)

    def _check(self, num_workers, sampler, batch_sampler, shuffle, **rest) -> None:
        """Refuse what contradicts itself, and what only processes of their own could do."""
        chosen = shuffle or sampler is not None or rest["drop_last"] or rest["batch_size"] != 1
        two, here = "option is mutually exclusive with", "because qkv.torch reads in this process"
        refused = {
            f"sampler {two} shuffle": sampler is not None and shuffle,
            f"batch_sampler {two} batch_size, shuffle, sampler, and drop_last": batch_sampler is not None
            and chosen,
            "num_workers and timeout options should be non-negative": num_workers < 0 or rest["timeout"] < 0,
            f"worker_init_fn must be None {here}": num_workers and rest["worker_init_fn"] is not None,
            f"batch_size=None {two} drop_last": rest["batch_size"] is None and rest["drop_last"],
        }
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            refused[f"{name} option needs num_workers > 0"] = rest[name] and not num_workers
        if wrong := [text for text, is_wrong in refused.items() if is_wrong]:
            raise ValueError(wrong[0])

    def __iter__(self) -> Iterator[Any]:
        random_number(self.generator)  # PyTorch draws a seed for its workers here, whether it has any or not
        return self._batches()

    def _batches(self: Any) -> Iterator[Any]:
        if self.batch_sampler is None:
            entries: Any = (self.dataset[i] for i in self.sampler)
        else:
            entries = ([self.dataset[i] for i in indices] for indices in self.batch_sampler)
        yield from map(self.collate_fn, entries)

    def __len__(self: Any) -> int:
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


__getattr__ = partial(refuse_attribute, "torch.utils.data")
