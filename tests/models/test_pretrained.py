"""Models in folders: what is saved comes back, and files of other makers are read."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import qkv
from models.folders import SIZES, change, make_model, write
from qkv import models

pytest.importorskip("safetensors")
from safetensors.numpy import load_file, save_file

KINDS = [
    models.BertModel,
    models.BertForPreTraining,
    models.BertForMaskedLM,
    models.BertForSequenceClassification,
    models.BertForTokenClassification,
]
IDS = np.random.default_rng(1).integers(0, SIZES["vocab_size"], (2, 7))


def outputs(model):
    return [y.numpy() for y in model(IDS, valid_lens=[7, 4]) if y is not None]


def edit(folder, change_arrays):
    """Rewrite the tensors of a folder."""
    path = folder / "model.safetensors"
    save_file(change_arrays(load_file(path)), path, metadata={"format": "pt"})


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_comes_back(tmp_path, kind):
    model = make_model(
        kind, id2label={0: "good", 1: "bad", 2: "ugly"}, hidden_act="gelu_new", hidden_dropout_prob=0.3
    )
    model.train().save_pretrained(tmp_path / "new" / "folder")
    loaded = kind.from_pretrained(str(tmp_path / "new" / "folder"))
    assert type(loaded) is kind
    assert not loaded.training
    assert all((a == b).all() for a, b in zip(outputs(model.eval()), outputs(loaded), strict=True))
    assert {
        k: v for k, v in loaded.config.to_dict().items() if k not in ("architectures", "dtype")
    } == model.config.to_dict()
    assert loaded.config.extra["architectures"] == [kind.__name__]
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    loaded(IDS)[0].sum().backward()
    assert all(p.requires_grad for p in loaded.parameters())
    assert np.abs(next(iter(loaded.parameters())).grad.numpy()).max() > 0


def test_saving_again(tmp_path):
    make_model(seed=1).save_pretrained(tmp_path)
    model = make_model(seed=2)
    model.save_pretrained(tmp_path)
    again = models.BertModel.from_pretrained(tmp_path)
    assert (outputs(again)[0] == outputs(model)[0]).all()
    again.to("float64").save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float64"
    assert (outputs(models.BertModel.from_pretrained(tmp_path))[0] == outputs(model)[0]).all()
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="folder must be a folder; got the file"):
        model.save_pretrained(tmp_path / "file")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    model = make_model()
    model.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    arrays = load_file(tmp_path / "model.safetensors")  # as the library reads what is written here
    assert arrays.keys() == dict(model.named_parameters()).keys()
    assert all((arrays[name] == p.numpy()).all() for name, p in model.named_parameters())
    save_file(arrays, tmp_path / "again", metadata={"format": "pt"})
    assert (tmp_path / "again").read_bytes() == before
    (tmp_path / "again").unlink()

    def fail(handle):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_encoder_of_a_model_with_a_head(tmp_path, kind):
    model = make_model(kind)
    model.save_pretrained(tmp_path)
    loaded = models.BertModel.from_pretrained(tmp_path)
    assert (loaded.pooler is None) == (model.bert.pooler is None)
    assert (outputs(loaded)[0] == outputs(model.bert)[0]).all()


@pytest.mark.parametrize("prefixed", [True, False])
@pytest.mark.parametrize("kind", [models.BertModel, models.BertForPreTraining, models.BertForMaskedLM])
def test_names_of_other_makers(tmp_path, prefixed, kind):
    """Prefix or not, gamma and beta, buffers, the decoder twice, heads of other models."""
    full = make_model(models.BertForPreTraining)
    full.save_pretrained(tmp_path)
    expected = kind(full.config)
    state = full.state_dict()
    strip = "bert." if kind is models.BertModel else ""
    expected.load_state_dict({k.removeprefix(strip): v for k, v in state.items()}, strict=False)

    def other(arrays):
        new = {}
        for name, array in arrays.items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            new[name if prefixed else name.removeprefix("bert.")] = array
        body = "bert." if prefixed else ""
        new[body + "embeddings.position_ids"] = np.arange(19)[None]
        new["cls.predictions.decoder.weight"] = new[body + "embeddings.word_embeddings.weight"].copy()
        new["cls.predictions.decoder.bias"] = new.pop("cls.predictions.bias")
        return new | {
            "classifier.weight": np.ones((2, 24), "float32"),
            "qa_outputs.bias": np.ones(2, "float32"),
        }

    edit(tmp_path, other)
    loaded = kind.from_pretrained(tmp_path)
    assert all((a == b).all() for a, b in zip(outputs(expected.eval()), outputs(loaded), strict=True))


def test_old_and_other_configurations(tmp_path):
    model = make_model(initializer_range=0.02)
    model.save_pretrained(tmp_path)
    short = {k: v for k, v in SIZES.items() if k != "initializer_range"}
    write(
        tmp_path / "config.json", {**short, "architectures": ["BertModel"], "gradient_checkpointing": False}
    )
    loaded = models.BertModel.from_pretrained(tmp_path)
    assert loaded.config.layer_norm_eps == 1e-12
    assert loaded.config.extra == {"architectures": ["BertModel"], "gradient_checkpointing": False}
    assert (outputs(loaded)[0] == outputs(model)[0]).all()
    change(tmp_path / "config.json", hidden_act="relu", layer_norm_eps=0.1)
    assert np.abs(outputs(models.BertModel.from_pretrained(tmp_path))[0] - outputs(model)[0]).max() > 1e-3


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_other_widths(tmp_path, dtype):
    model = make_model()
    model.save_pretrained(tmp_path)
    rounded = {n: p.numpy() for n, p in model.named_parameters()}
    if dtype == "bfloat16":
        # Rounded towards zero: the upper half of the bits.
        halves = {n: (np.ascontiguousarray(v).view("<u4") >> 16).astype("<u2") for n, v in rounded.items()}
        rounded = {n: (v.astype("<u4") << 16).view("<f4") for n, v in halves.items()}
        header, data = {}, b""
        for name, half in halves.items():
            header[name] = {
                "dtype": "BF16",
                "shape": half.shape,
                "data_offsets": [len(data), len(data) + half.nbytes],
            }
            data += half.tobytes()
        text = json.dumps(header).encode()
        (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    else:
        rounded = {n: v.astype(dtype) for n, v in rounded.items()}
        edit(tmp_path, lambda _: rounded)
    loaded = models.BertModel.from_pretrained(tmp_path)
    for name, p in loaded.named_parameters():
        assert p.dtype == np.float32
        assert (p.numpy() == rounded[name].astype("float32")).all()


def test_several_files(tmp_path):
    model = make_model()
    model.save_pretrained(tmp_path)
    arrays = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    places = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(arrays)}
    for file in sorted(set(places.values())):
        save_file({n: a for n, a in arrays.items() if places[n] == file}, tmp_path / file)
    write(tmp_path / "model.safetensors.index.json", {"weight_map": places})
    assert (outputs(models.BertModel.from_pretrained(tmp_path))[0] == outputs(model)[0]).all()
    for wrong, text in (
        ({"weight_map": {"a": "../model-0.safetensors"}}, "must name safetensors files beside it"),
        ({"weight_map": {"a": 3}}, "must hold weight_map"),
        ({}, "must hold weight_map"),
        ({"weight_map": {"a": "model-0.safetensors"}}, "must hold all tensors of the index; missing: a"),
    ):
        write(tmp_path / "model.safetensors.index.json", wrong)
        with pytest.raises(ValueError, match=text):
            models.BertModel.from_pretrained(tmp_path)
    write(tmp_path / "model.safetensors.index.json", {"weight_map": {"a": "none.safetensors"}})
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors"):
        models.BertModel.from_pretrained(tmp_path)


def test_a_new_head(tmp_path):
    make_model().save_pretrained(tmp_path)
    kind = models.BertForSequenceClassification
    with pytest.raises(ValueError, match=r"must hold classifier\.weight, or new_head=True be given"):
        kind.from_pretrained(tmp_path, num_labels=5)
    qkv.manual_seed(4)
    model = kind.from_pretrained(tmp_path, new_head=True, num_labels=5)
    assert model(IDS).logits.shape == (2, 5)
    assert 0 < model.classifier.weight.numpy().std() < 1
    assert (outputs(model.bert)[0] == outputs(models.BertModel.from_pretrained(tmp_path))[0]).all()
    words = models.BertForMaskedLM.from_pretrained(tmp_path, new_head=True)
    assert np.isfinite(words(IDS).logits.numpy()).all()


@pytest.mark.parametrize("kind", KINDS)
def test_hugging_face_loads_what_is_saved(tmp_path, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        torch = pytest.importorskip("torch")
        model = make_model(kind, num_labels=3)
        model.save_pretrained(tmp_path)
        theirs, info = getattr(transformers, kind.__name__).from_pretrained(
            tmp_path, output_loading_info=True
        )
        assert not any(info.values()), info
        mask = np.arange(7) < np.array([[7], [4]])
        with torch.no_grad():
            y = theirs.eval()(input_ids=torch.tensor(IDS), attention_mask=torch.tensor(mask.astype("int64")))
    for ours, their in zip(outputs(model), y.to_tuple(), strict=False):
        kept = mask if ours.ndim == 3 else slice(None)
        np.testing.assert_allclose(ours[kept], their.numpy()[kept], 1e-4, 2e-5)
