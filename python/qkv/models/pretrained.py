"""Models in a folder, in Hugging Face's format: config.json and model.safetensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from .._atomic import write_files
from .files import Weights, checked_folder, json_writer, read_json, weights_writer

Model = TypeVar("Model", bound="Pretrained")


class Pretrained:
    """What all models share: they come from a folder and go into one. A family says what its files look like."""

    config: Any
    config_class: ClassVar[type[Any]]

    if TYPE_CHECKING:

        def __init__(self, *arguments: Any, **options: Any) -> None: ...

    @classmethod
    def _named(cls, weights: Weights) -> dict[str, str]:
        """Give the file's name of each tensor by the model's."""
        raise NotImplementedError

    @classmethod
    def _check_file(cls, weights: Weights, names: dict[str, str], config: Any, new_head: bool) -> None:
        """Compare the configuration with the file before anything of its sizes is made."""

    @classmethod
    def _options(cls, names: dict[str, str]) -> dict[str, Any]:
        """Give what the constructor takes beside the configuration, for a file with these tensors."""
        return {}

    @staticmethod
    def _modern(name: str) -> str:
        """Give the model's name of a parameter that old files call otherwise."""
        return name

    def _passed_over(self, own: str) -> bool:
        """Say whether the file holds this tensor for another model."""
        return False

    def _in_head(self, own: str) -> bool:
        """Say whether a parameter stands on top of the body."""
        return False

    @classmethod
    def from_pretrained(
        cls: type[Model], folder: str | os.PathLike[str], *, new_head: bool = False, **changes: Any
    ) -> Model:
        """Load config.json and model.safetensors of a folder.

        Parameters
        ----------
        folder : path
            As Hugging Face's libraries write it. Names may have the prefix ``bert.`` or not; the parameters of a
            LayerNorm may be called gamma and beta; buffers and the heads of other models are passed over; numbers
            become float32. A :class:`BertModel` has a pooler if the file has one.
        new_head : bool
            Draw the parameters that stand on top of the encoder afresh where the file has none, to be trained.
        **changes
            Entries of the configuration to be replaced, such as ``num_labels=3``.

        Returns
        -------
        model
            In evaluation mode; gradients are recorded.

        Raises
        ------
        OSError
            If the folder or one of its files is missing.
        ValueError
            If a file is damaged, or its numbers do not fit the configuration; the message names the file.

        Examples
        --------
        >>> sizes = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
        >>> qkv.models.BertModel(qkv.models.BertConfig(**sizes)).save_pretrained("tiny")  # doctest: +SKIP
        >>> qkv.models.BertModel.from_pretrained("tiny").config.hidden_size  # doctest: +SKIP
        8
        """
        path = checked_folder("from_pretrained", folder)
        config = read_config(path, cls.config_class, changes)
        weights = Weights(path)
        names = cls._named(weights)
        cls._check_file(weights, names, config, new_head)
        made: Any = cls(config, values=False, **cls._options(names))
        chosen = {own: name for own, name in names.items() if not made._passed_over(own)}
        missing = {name for name, _ in made.named_parameters()} - {cls._modern(name) for name in chosen}
        head = {name for name in missing if made._in_head(name)}
        if new_head and head == missing and head:
            made = cls(config)  # drawn
        arrays = dict(weights.read(chosen))
        if new_head:
            arrays |= {name: np.asarray(p) for name, p in made.named_parameters() if name in head}
        try:
            made.load_state_dict(arrays)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{weights.path}: {error}") from None
        loaded: Model = made.eval()
        return loaded

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write config.json and model.safetensors, which Hugging Face's libraries and :meth:`from_pretrained` load.

        Parameters
        ----------
        folder : path
            Is made if it does not exist. Both files are written whole under other names first; then config.json takes
            its name and model.safetensors right after it. A full disk, an error or a kill before that leaves the old
            pair, and new weights never stand beside an old configuration.

        Raises
        ------
        OSError
            If the folder cannot be written.

        Examples
        --------
        >>> sizes = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
        >>> qkv.models.BertModel(qkv.models.BertConfig(**sizes)).save_pretrained("tiny")  # doctest: +SKIP
        """
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(f"save_pretrained: folder must be a folder; got the file {path}")
        path.mkdir(parents=True, exist_ok=True)
        model: Any = self
        arrays = {name: np.ascontiguousarray(p.numpy()) for name, p in model.named_parameters()}
        dtype = str(next(iter(arrays.values())).dtype)
        entries = {**self.config.to_dict(), "architectures": [type(self).__name__], "dtype": dtype}
        entries.pop("torch_dtype", None)
        write_files(
            [
                (path / "config.json", json_writer(entries)),
                (path / "model.safetensors", weights_writer(arrays)),
            ]
        )


def read_config(folder: Path, kind: type[Any], changes: dict[str, Any] | None = None) -> Any:
    """Read config.json as a configuration of this kind; `changes` replace some of its entries."""
    path = folder / "config.json"
    entries = read_json(path)
    changes = changes or {}
    if "num_labels" in changes:
        entries.pop("id2label", None)
    try:
        return kind.from_dict({**entries, **changes})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
