"""Small models of transformers: of each class its configuration, and what its attention has beside the plain one."""

from __future__ import annotations

from typing import Any, NamedTuple

_TEXT: dict[str, Any] = {
    "vocab_size": 67,
    "hidden_size": 32,
    "intermediate_size": 37,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_IMAGES: dict[str, Any] = {**_TEXT, "image_size": 14, "patch_size": 7}
_GROUPED = {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}
_WINDOWS = {**_GROUPED, "sliding_window": 5}
_SEVERAL: dict[str, Any] = {
    "vocab_size": 67,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
_T5: dict[str, Any] = {
    "vocab_size": 67,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 37,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
}
_GPT: dict[str, Any] = {
    "vocab_size": 67,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "n_ctx": 64,
}
_EXPERTS = {
    "intermediate_size": 40,
    "intermediate_size_mlp": 40,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
}


_LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 7,
    "first_k_dense_replace": 2,
    "num_key_value_heads": 4,
}
_INDEXED = {"index_n_heads": 2, "index_head_dim": 8}
_BLOCKS = {
    **_INDEXED,
    "index_block_size": 2,
    "index_topk_blocks": 2,
    "layer_types": ["minimax_m3_sparse", "full_attention"],
    "mlp_layer_types": ["dense", "dense"],
    "dense_intermediate_size": 40,
    "shared_intermediate_size": 40,
    "rotary_dim": 4,
}
_V4 = {
    **_INDEXED,
    "moe_intermediate_size": 40,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
    "q_lora_rank": 16,
    "o_lora_rank": 16,
    "o_groups": 2,
    "qk_rope_head_dim": 4,
    "sliding_window": 5,
    "hc_mult": 2,
}
_CONVOLUTIONS = {
    "conv_dim": [8, 8],
    "conv_kernel": [4, 4],
    "conv_stride": [2, 2],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}
_SWIN = {
    "image_size": 16,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2],
    "num_heads": [4],
    "window_size": 4,
}
_LAYOUT = {"visual_embed": False, "coordinate_size": 4, "shape_size": 8, "has_spatial_attention_bias": True}
_LOCAL = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 5}


class Case(NamedTuple):
    """A class, its kind of inputs, its configuration, and what its attention has."""

    name: str
    kind: str  # decoder, encoder, both, images, sound
    config: dict[str, Any]
    options: str = ""
    eager: bool = False  # an attention of its own
    of_config: str = ""  # unless the class says it


CASES = [
    Case("GPT2LMHeadModel", "decoder", _GPT),
    Case("GPTBigCodeForCausalLM", "decoder", {**_GPT, "multi_query": True}, "one head of keys"),
    Case("GPTJForCausalLM", "decoder", {**_GPT, "rotary_dim": 4}),
    Case("CodeGenForCausalLM", "decoder", {**_GPT, "rotary_dim": 4}),
    Case("GPTNeoXForCausalLM", "decoder", _TEXT),
    Case("OPTForCausalLM", "decoder", {**_TEXT, "ffn_dim": 37, "word_embed_proj_dim": 32}),
    Case("BioGptForCausalLM", "decoder", _TEXT),
    Case("LlamaForCausalLM", "decoder", _GROUPED, "grouped heads"),
    Case("MistralForCausalLM", "decoder", _WINDOWS, "grouped heads, window"),
    Case("MixtralForCausalLM", "decoder", {**_WINDOWS, **_EXPERTS}, "grouped heads, window"),
    Case(
        "Qwen2ForCausalLM",
        "decoder",
        {**_WINDOWS, "use_sliding_window": True, "max_window_layers": 1},
        "grouped heads, window in one layer",
    ),
    Case("Qwen3ForCausalLM", "decoder", _GROUPED, "grouped heads"),
    Case("PhiForCausalLM", "decoder", _TEXT),
    Case("Phi3ForCausalLM", "decoder", _WINDOWS, "grouped heads, window"),
    Case("GemmaForCausalLM", "decoder", _GROUPED, "grouped heads"),
    Case("Gemma2ForCausalLM", "decoder", {**_WINDOWS, "attn_logit_softcapping": 0.5}, "soft cap, window"),
    Case("Gemma3ForCausalLM", "decoder", _WINDOWS, "grouped heads, window", of_config="Gemma3TextConfig"),
    Case("CohereForCausalLM", "decoder", _GROUPED, "grouped heads"),
    Case("Cohere2ForCausalLM", "decoder", _WINDOWS, "grouped heads, window"),
    Case("Olmo2ForCausalLM", "decoder", _GROUPED, "grouped heads"),
    Case("StableLmForCausalLM", "decoder", _GROUPED, "grouped heads"),
    Case("Starcoder2ForCausalLM", "decoder", _WINDOWS, "grouped heads, window"),
    Case("GraniteForCausalLM", "decoder", {**_GROUPED, "attention_multiplier": 0.3}, "scale"),
    Case("GptOssForCausalLM", "decoder", {**_WINDOWS, **_EXPERTS}, "sinks, window"),
    Case("DeepseekV3ForCausalLM", "decoder", {**_TEXT, **_LATENT}, "values of another width"),
    Case(
        "DeepseekV32ForCausalLM",
        "decoder",
        {**_TEXT, **_LATENT, **_INDEXED, "index_topk": 4},
        "keys chosen by an indexer",
    ),
    Case(
        "MiniMaxM3VLForCausalLM",
        "decoder",
        {**_GROUPED, **_EXPERTS, **_BLOCKS},
        "blocks chosen by an indexer",
    ),
    Case(
        "DeepseekV4ForCausalLM", "decoder", {**_TEXT, **_V4, "head_dim": 8, "intermediate_size": 40}, "sinks"
    ),
    Case(
        "Llama4ForCausalLM",
        "decoder",
        {**_GROUPED, **_EXPERTS, "attention_chunk_size": 4},
        "chunks",
        of_config="Llama4TextConfig",
    ),
    Case("DiffLlamaForCausalLM", "decoder", _GROUPED, "grouped heads"),
    Case("FalconForCausalLM", "decoder", _TEXT, eager=True),
    Case(
        "BloomForCausalLM",
        "decoder",
        {"vocab_size": 67, "hidden_size": 32, "n_layer": 2, "n_head": 4},
        eager=True,
    ),
    Case(
        "MptForCausalLM",
        "decoder",
        {"vocab_size": 67, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
        eager=True,
    ),
    Case("GPTNeoForCausalLM", "decoder", {**_TEXT, **_LOCAL}, eager=True),
    Case(
        "XGLMForCausalLM",
        "decoder",
        {**_TEXT, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 37},
        eager=True,
    ),
    Case("BertModel", "encoder", _TEXT),
    Case("RobertaModel", "encoder", _TEXT),
    Case("DistilBertModel", "encoder", {**_TEXT, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}),
    Case("AlbertModel", "encoder", {**_TEXT, "embedding_size": 16}),
    Case("ElectraModel", "encoder", {**_TEXT, "embedding_size": 16}),
    Case("ErnieModel", "encoder", _TEXT),
    Case("XLMRobertaModel", "encoder", _TEXT),
    Case("EsmModel", "encoder", {**_TEXT, "position_embedding_type": "rotary", "mask_token_id": 3}),
    Case(
        "ModernBertModel",
        "encoder",
        {**_TEXT, "local_attention": 6, "global_attn_every_n_layers": 2},
        "window on both sides",
    ),
    Case("LayoutLMv3Model", "encoder", {**_TEXT, **_LAYOUT}, "position biases"),
    Case("MPNetModel", "encoder", _TEXT, eager=True),
    Case("RemBertModel", "encoder", {**_TEXT, "input_embedding_size": 16}, eager=True),
    Case("RoFormerModel", "encoder", _TEXT, eager=True),
    Case("SqueezeBertModel", "encoder", {**_TEXT, "embedding_size": 32, "intermediate_size": 36}, eager=True),
    Case("MegatronBertModel", "encoder", _TEXT, eager=True),
    Case("BartForConditionalGeneration", "both", _SEVERAL),
    Case("MBartForConditionalGeneration", "both", _SEVERAL),
    Case("PegasusForConditionalGeneration", "both", _SEVERAL),
    Case("M2M100ForConditionalGeneration", "both", _SEVERAL),
    Case("MarianMTModel", "both", _SEVERAL),
    Case("BlenderbotForConditionalGeneration", "both", _SEVERAL),
    Case("T5ForConditionalGeneration", "both", _T5, "position biases"),
    Case("UMT5ForConditionalGeneration", "both", _T5, "position biases"),
    Case("ViTModel", "images", _IMAGES),
    Case("DeiTModel", "images", _IMAGES),
    Case("BeitModel", "images", _IMAGES, "position biases"),
    Case("Dinov2Model", "images", _IMAGES),
    Case("SiglipVisionModel", "images", _IMAGES),
    Case("CLIPVisionModel", "images", _IMAGES),
    Case("SwinModel", "images", _SWIN, "windows of an image"),
    Case(
        "WhisperForConditionalGeneration",
        "sound",
        {**_SEVERAL, "num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 30},
    ),
    Case("Wav2Vec2Model", "sound", {**_TEXT, **_CONVOLUTIONS}),
]


def built(case: Case) -> tuple[Any, Any]:
    """Return the same random model with eager attention and with qkv's."""
    import torch
    import transformers

    cls = getattr(transformers, case.name)
    make = getattr(transformers, case.of_config) if case.of_config else cls.config_class
    eager, fused = (
        cls._from_config(make(**case.config), attn_implementation=name).eval() for name in ("eager", "qkv")
    )
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in eager.parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(0.1 * noise if p.dim() > 1 else p + 0.1 * noise)
    fused.load_state_dict(eager.state_dict())
    return eager, fused
