"""What files say beside tokenizer.json, beside Hugging Face's AutoTokenizer."""

from __future__ import annotations

import ast
import inspect
import json

import pytest
from sweep import sweep

from models.folders import write
from models.small_tokenizers import TEXTS, change_file, folder_of, trained
from qkv.models import Tokenizer, supported
from qkv.models.text import entries

pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

ENT = {"content": "<ent>", "special": False, "normalized": False}
MASK = {"content": "[MASK]", "lstrip": True, "rstrip": True, "special": True}
TIDY = {"clean_up_tokenization_spaces": True}
TIDY_BYTES = {**TIDY, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True}
PADDED = {"pad_token": {"content": "<ent>", "lstrip": True}, "additional_special_tokens": ["cat"]}
ENDS = {"add_bos_token": True, "add_eos_token": True, "bos_token": "<mask>"}
OF_THE_FILE = "PreTrainedTokenizerFast"
BERT = ("bert", "bert", "BertTokenizer")
FAST = ("bytes", "llama", OF_THE_FILE)
ROBERTA = ("bytes", "roberta", "RobertaTokenizer")
# Kind of tokenizer, model type, class, other settings, whether tokenizer.json lowers, special_tokens_map.json.
CASES = {
    "lower case asked for": (*BERT, {"do_lower_case": True}, False),
    "lower case not asked for": (*BERT, {"do_lower_case": False}),
    "lower case by the class": (*BERT, {}, False),
    "lower case by the type": ("bert", "distilbert", None, {}, False),
    "lower case of the file": ("bert", "bert", OF_THE_FILE, {"do_lower_case": True}, False),
    "a type whose file counts": ("bert", "modernbert", "BertTokenizer", {"do_lower_case": True}, False),
    "accents kept": (*BERT, {"strip_accents": False}),
    "accents stripped": ("bert", "electra", "BertTokenizer", {"do_lower_case": False, "strip_accents": True}),
    "Chinese signs": (*BERT, {"tokenize_chinese_chars": False}),
    "tokens with numbers": (*BERT, {"added_tokens_decoder": {"NEXT": ENT}}),
    "tokens that take spaces": (*BERT, {"added_tokens_decoder": {"4": MASK}}),
    "more special tokens": (*BERT, {"extra_special_tokens": ["<ent>", "dog"]}),
    "more under the old name": (*BERT, {"additional_special_tokens": ["<ent>"]}),
    "more by name": (*BERT, {"extra_special_tokens": {"image_token": "<ent>"}}),
    "a token that is no word": (*FAST, {"pad_token": "<ent>"}),
    "tokens of the map": (*BERT, {}, True, PADDED),
    "a map that does not count": (
        *BERT,
        {"added_tokens_decoder": {"4": MASK}},
        True,
        {"mask_token": "<ent>"},
    ),
    "special tokens split": (*BERT, {"split_special_tokens": True}),
    "special tokens split, bytes": (*ROBERTA, {"split_special_tokens": True}),
    "cut at the left": (*BERT, {"truncation_side": "left"}),
    "cut at the left, bytes": (*FAST, {"truncation_side": "left"}),
    "a space before": (*ROBERTA, {"add_prefix_space": True}),
    "no space before": ("unigram", "xlm-roberta", "XLMRobertaTokenizer", {"add_prefix_space": False}),
    "ends that the file has": (*FAST, ENDS),
    "inputs without types": (*BERT, {"model_input_names": ["input_ids", "attention_mask"]}),
    "inputs with types": (*FAST, {"model_input_names": ["input_ids", "token_type_ids"]}),
    "around pairs": (*BERT, {"ALONE": True}),
    "around pairs of RoBERTa's": (*ROBERTA, {"ALONE": True, "sep_token": "<mask>"}),
    "around pairs of XLM-RoBERTa's": ("unigram", "xlm-roberta", "XLMRobertaTokenizer", {"ALONE": True}),
    "around pairs of the file": (*FAST, {"ALONE": True}),
    "tidied texts": (*BERT, TIDY),
    "tidied bytes are not": ("bytes", "gpt2", OF_THE_FILE, TIDY),
    "tidied bytes are, if asked": ("bytes", "gpt2", OF_THE_FILE, TIDY_BYTES),
}


def beside(tmp_path, kind, model_type, named, settings, lower=True, special=None):
    """Return both libraries' tokenizers of a folder."""
    settings = {**settings, **({} if named is None else {"tokenizer_class": named})}
    folder = folder_of(tmp_path, kind, model_type, settings or None, lower)
    if special is not None:
        write(folder / "special_tokens_map.json", special)
    if settings.get("ALONE"):  # the file says what is around one text alone
        alone = {"SpecialToken": {"id": "[CLS]" if kind == "bert" else "<s>", "type_id": 0}}
        change_file(
            folder / "tokenizer.json",
            lambda whole: whole["post_processor"].update(
                single=[alone, {"Sequence": {"id": "A", "type_id": 0}}],
                pair=[{"Sequence": {"id": x, "type_id": i}} for i, x in enumerate("AB")],
            ),
        )
    if "NEXT" in settings.get("added_tokens_decoder", {}):
        count = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
        write(folder / "tokenizer_config.json", {**settings, "added_tokens_decoder": {str(count): ENT}})
    return Tokenizer.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)


def compare(ours, theirs):
    """Compare ids, pairs, types, what is cut, and texts of ids."""
    assert ours.encode(TEXTS) == theirs(TEXTS)["input_ids"]
    assert ours.encode(TEXTS, 7) == theirs(TEXTS, max_length=7, truncation=True)["input_ids"]
    seconds = TEXTS[3:] + TEXTS[:3]
    for length in (None, 7, 12, 25):
        options = {} if length is None else {"max_length": length, "truncation": "longest_first"}
        found = theirs(TEXTS, seconds, **options)
        assert ours.encode(TEXTS, length, text_pair=seconds) == found["input_ids"]
        assert ours.encode(list(zip(TEXTS, seconds, strict=True)), length) == found["input_ids"]
        made = ours(TEXTS, seconds, max_length=length)
        assert ("token_type_ids" in made) == ("token_type_ids" in found)
        for name in made.keys() & found.keys():
            rows = [
                row[: sum(mask)].tolist()
                for row, mask in zip(made[name], made["attention_mask"], strict=True)
            ]
            assert rows == found[name], name
    for ids in theirs(TEXTS)["input_ids"]:
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


@sweep("name", CASES)
def test_settings_beside_hugging_faces(name, tmp_path_factory):
    ours, theirs = beside(tmp_path_factory.mktemp("folder"), *CASES[name])
    compare(ours, theirs)


@sweep(
    "settings, direction, left",
    [
        (None, "left", True),
        ({"truncation_side": "right"}, "left", False),
        ({"truncation_side": "left"}, "right", True),
    ],
)
def test_the_side_that_tokenizer_json_cuts(settings, direction, left, tmp_path_factory):
    folder = folder_of(tmp_path_factory.mktemp("folder"), "bert", "bert", settings)
    cut = {"direction": direction.title(), "max_length": 5, "stride": 0, "strategy": "LongestFirst"}
    change_file(folder / "tokenizer.json", lambda whole: whole.update(truncation=cut))
    ours = Tokenizer.from_pretrained(folder)
    whole = ours.encode("one two three four")
    assert ours.encode("one two three four", 4) == (
        [whole[0], *whole[-3:]] if left else [*whole[:3], whole[-1]]
    )
    compare(ours, transformers.AutoTokenizer.from_pretrained(folder))


def test_tokens_whose_numbers_do_not_fit(tmp_path):
    folder = folder_of(tmp_path, "bert", "bert", {"added_tokens_decoder": {"7777": ENT}})
    with pytest.raises(ValueError, match=r"the words before the added token '<ent>' = 7777; it would be \d+"):
        Tokenizer.from_pretrained(folder)
    for entry in ({"x": ENT}, {"7": {"special": True}}, {"7": 3}):
        write(folder / "tokenizer_config.json", {"added_tokens_decoder": entry})
        with pytest.raises(
            ValueError, match=r"must be beside added tokens with ids and contents; got '[x7]'"
        ):
            Tokenizer.from_pretrained(folder)


@sweep(
    "entry, told",
    [
        (
            {"init_inputs": ["a"]},
            r"init_inputs must be \(\) or \[\] because qkv computes nothing else; got \['a'\]",
        ),
        (
            {"sp_model_kwargs": {"alpha": 1}},
            r"sp_model_kwargs must be \{\} because qkv computes nothing else; got",
        ),
        (
            {"fix_mistral_regex": True},
            "fix_mistral_regex must be false because qkv computes nothing else; got True",
        ),
        ({"truncation_side": "middle"}, "truncation_side must be right or left; got middle"),
    ],
)
def test_settings_that_are_refused(entry, told, tmp_path_factory):
    folder = folder_of(tmp_path_factory.mktemp("folder"), "bert", "bert", entry)
    with pytest.raises(ValueError, match=rf"tokenizer_config\.json: {told}"):
        Tokenizer.from_pretrained(folder)


HOSTILE = (None, 3, -1, 1e308, 10**30, "x", "\0", [], [3], [None], ["x", {}], {}, {"a": 3}, {"5": {}}, True)


@sweep("entry", sorted(entries.TOKENIZER_CONFIG.known))
def test_hostile_entries_load_or_are_refused_in_one_line(entry, tmp_path_factory):
    folder, told = folder_of(tmp_path_factory.mktemp("folder"), "bert", "bert"), []
    for value in (*HOSTILE, {"content": 3}):
        write(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", entry: value})
        try:
            made = Tokenizer.from_pretrained(folder)
            made.decode(made.encode("the dog [SEP]", text_pair="cat"))
        except ValueError as error:
            told.append(str(error))
    assert all("\n" not in text and "tokenizer" in text for text in told)


def read_by(function) -> set[str]:
    """Return the names of entries that a function takes from its keyword arguments, or as parameters."""
    found = {
        p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
    }
    for node in ast.walk(ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))):
        name = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            name, holder = node.args[0], node.func.value
        elif isinstance(node, ast.Subscript):
            name, holder = node.slice, node.value
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            name, holder = node.left, node.comparators[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and isinstance(holder, ast.Name):
            found |= {name.value} if holder.id in ("kwargs", "init_kwargs", "local_kwargs") else set()
    return found


def test_every_entry_that_hugging_faces_classes_read_is_in_a_table():
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase as Base

    names = {TOKENIZER_MAPPING_NAMES.get(kind) for kind in supported()} | {
        "LlamaTokenizer",
        "TokenizersBackend",
    }
    kinds = [tokenizer_class_from_name(name) for name in names if name]
    functions = [Base.__init__, Base._from_pretrained.__func__]
    functions += [kind.__init__ for kind in kinds if kind is not None]
    backend = tokenizer_class_from_name("TokenizersBackend")
    functions += [backend.convert_to_native_format.__func__, backend._convert_from_sentencepiece.__func__]
    read = set().union(*map(read_by, functions)) | {*Base.SPECIAL_TOKENS_ATTRIBUTES}
    assert {
        "do_lower_case",
        "truncation_side",
        "split_special_tokens",
        "added_tokens_decoder",
        "legacy",
    } <= read
    arguments = {"self", "cls", "args", "kwargs", "resolved_vocab_files", "pretrained_model_name_or_path"}
    arguments |= {
        "local_kwargs",
        "init_configuration",
        "token",
        "cache_dir",
        "_is_local",
        "vocab_file",
        "merges_file",
    }
    assert read - arguments <= entries.TOKENIZER_CONFIG.known


def test_every_entry_of_tokenizer_json_is_in_a_table(tmp_path):
    from tokenizers import Tokenizer as Theirs

    made = Theirs.from_file(str(folder_of(tmp_path, "bert", None) / "tokenizer.json"))
    made.enable_truncation(8)
    made.enable_padding()
    whole = json.loads(made.to_str())
    assert whole.keys() == entries.TOKENIZER_JSON.known
    assert whole["truncation"].keys() == entries.TRUNCATION.known


def test_tables_give_reasons_and_say_each_entry_once():
    for table in vars(entries).values():
        if isinstance(table, entries.Entries):
            assert all(len(reason) > 10 for reason in table.without_effect.values())
            kinds = len(table.computed) + len(table.without_effect) + len(table.refused)
            assert kinds == len(table.known)


def test_ends_of_a_folder_with_programs_of_its_own(tmp_path):
    settings = {"add_eos_token": True, "eos_token": "</s>", "auto_map": {"AutoTokenizer": ["a.B", None]}}
    plain = Tokenizer.from_pretrained(
        folder_of(tmp_path / "plain", "bytes", "qwen2", {**settings, "auto_map": {}})
    )
    own = Tokenizer.from_pretrained(folder_of(tmp_path / "own", "bytes", "qwen2", settings))
    ids = plain.encode("a dog")
    assert own.encode("a dog") == ids[1:]  # the file's template writes <s>, this one only what is asked for


def test_lower_case_and_punctuation_of_deberta(tmp_path):
    first = folder_of(tmp_path / "first", "unigram", "deberta-v2", {"tokenizer_class": "DebertaV2Tokenizer"})
    transformers.AutoTokenizer.from_pretrained(first).save_pretrained(tmp_path / "second")
    write(tmp_path / "second" / "config.json", {"model_type": "deberta-v2"})
    saved = json.loads((tmp_path / "second" / "tokenizer_config.json").read_text())
    for settings in (
        {},
        {"do_lower_case": True},
        {"split_by_punct": True},
        {"do_lower_case": True, "split_by_punct": True},
    ):
        write(tmp_path / "second" / "tokenizer_config.json", {**saved, **settings})
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "second")
        assert Tokenizer.from_pretrained(tmp_path / "second").encode(TEXTS) == theirs(TEXTS)["input_ids"]


@sweep(
    "settings",
    [
        {},
        {"legacy": True},
        {"legacy": False},
        {"add_prefix_space": False},
        {"legacy": True, "add_prefix_space": True},
    ],
)
def test_spaces_of_llama(settings, tmp_path_factory):
    from tokenizers import Tokenizer as Theirs
    from tokenizers import decoders, models, normalizers

    folder = tmp_path_factory.mktemp("folder")
    words = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{i:02X}>" for i in range(256)),
        "▁",
        *"abcdefghijklmnopqrstuvwxyz",
        "▁a",
        "▁d",
        "og",
    ]
    made = Theirs(
        models.BPE(
            {word: i for i, word in enumerate(words)}, [("▁", "a"), ("▁", "d"), ("o", "g")], unk_token="<unk>",
            byte_fallback=True, fuse_unk=True,
        )
    )  # fmt: skip
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(parts)
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    made.save(str(folder / "tokenizer.json"))
    write(folder / "config.json", {"model_type": "llama"})
    write(folder / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", **settings})
    ours, theirs = Tokenizer.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)
    for text in [*TEXTS, " a dog", "<s> a<s>dog </s> a", "dog"]:
        assert ours.encode(text) == theirs(text)["input_ids"], text


QWEN = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|endoftext|>"}


@sweep(
    "kind, settings",
    [
        ("gpt2", None),
        ("gpt2", {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "<s>"}),
        ("roberta", None),
        ("roberta", {"add_prefix_space": True, "added_tokens_decoder": {"400": {"content": "<ent>"}}}),
        ("bart", {"tokenizer_class": "BartTokenizer"}),
        ("qwen3", QWEN),
        ("qwen2", {"eos_token": "<|endoftext|>"}),
    ],
)
def test_words_and_merges_beside_hugging_faces(kind, settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    model = json.loads(trained("bytes"))["model"]
    write(folder / "vocab.json", model["vocab"])
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in model["merges"]))
    write(folder / "config.json", {"model_type": kind})
    if settings is not None:
        write(folder / "tokenizer_config.json", settings)
    ours, theirs = Tokenizer.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)
    found = theirs(TEXTS)["input_ids"]
    assert ours.encode(TEXTS) == found
    assert ours.encode("a dog", text_pair="cat") == theirs("a dog", "cat")["input_ids"]
    for ids in found:
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    (folder / "vocab.json").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"vocab\.json: this file must exist beside merges\.txt; there is none"
    ):
        Tokenizer.from_pretrained(folder)
