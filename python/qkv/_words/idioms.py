"""What people type who come from elsewhere, and what it is called here; `errors` shows it.

A table gives for each foreign name pairs of what must exist (in the signature that was called, or on the object) and
what to say; the first pair whose names all exist is used. A name that qkv has itself needs no line.
"""

from __future__ import annotations

from .method_idioms import METHODS

Idioms = dict[str, list[tuple[frozenset[str], str]]]


def _renamed(origin: str, lines: str) -> Idioms:
    """Read lines of ``theirs: ours``, several of each; which of ours is meant depends on what was called."""
    table: Idioms = {}
    for line in lines.strip().splitlines():
        theirs, ours = line.split(":")
        for name in theirs.split():
            table[name] = [
                (frozenset([own]), f"did you mean {own} (called {name} in {origin})?") for own in ours.split()
            ]
    return table


def _said(lines: str) -> Idioms:
    """Read lines of ``theirs (names that must exist): what to say``, several of each or nothing in brackets."""
    table: Idioms = {}
    for line in lines.strip().splitlines():
        names, text = " ".join(line.split()).split(": ", 1)
        theirs, _, needed = names.rstrip(")").partition(" (")
        for name in theirs.split():
            table.setdefault(name, []).append((frozenset(needed.split()), text.replace("NAME", name)))
    return table


def _joined(*tables: Idioms) -> Idioms:
    joined: Idioms = {}
    for table in tables:
        for name, idioms in table.items():
            joined[name] = joined.get(name, []) + idioms
    return joined


_LENGTHS = "valid_lens (how many keys of each item are real)"
_ALLOWED = "attn_mask (boolean, True = may attend: the opposite of PyTorch's layers)"
_CPU = "everything is computed on the CPU, leave it out"
_READ_WEIGHTS = "the layer keeps them: read layer.attention_weights after the call"
_LAYER_DTYPE = 'layers are made in float32, then write layer.to("float64") or layer.to("bfloat16")'

# Keyword arguments.
KEYWORDS = _joined(
    _said(
        f"""
        key_padding_mask (valid_lens attn_mask): give {_LENGTHS}, or {_ALLOWED}
        key_padding_mask (valid_lens): give {_LENGTHS}
        src_key_padding_mask (src_valid_lens): give src_{_LENGTHS}
        tgt_key_padding_mask (tgt_valid_lens): give tgt_{_LENGTHS}
        memory_key_padding_mask (memory_valid_lens): give memory_{_LENGTHS}
        src_key_padding_mask tgt_key_padding_mask (valid_lens): give {_LENGTHS}
        memory_mask (memory_attn_mask): give memory_{_ALLOWED}
        attention_mask (valid_lens attn_mask): give {_LENGTHS}, or {_ALLOWED}
        src_mask tgt_mask mask (attn_mask is_causal): give {_ALLOWED}, or is_causal=True
        src_mask tgt_mask mask attention_mask (attn_mask): give {_ALLOWED}
        block_mask (mask_mod): give mask_mod(b, h, q_idx, kv_idx); blocks of it that are empty cost nothing
        min_freq (min_count): did you mean min_count?
        min_freq (tokens specials): texts are counted by Vocabulary.of(texts, min_count=)
        reserved_tokens special_tokens (specials): did you mean specials?
        padding_value (pad_id): did you mean pad_id?
        batch_first: the batch always comes first, leave it out
        need_weights: {_READ_WEIGHTS}
        average_attn_weights: write layer.attention_weights.mean(1)
        return_attention_scores output_attentions (return_weights): did you mean return_weights?
        return_attention_scores output_attentions: {_READ_WEIGHTS}
        return_dict: results are named tuples, leave it out
        use_cache (cache): give cache=qkv.nn.KVCache()
        add_bias_kv add_zero_attn: there is no such row; sinks of scaled_dot_product_attention are one
        bidirectional: a GRU reads in one direction; run another one over the reversed steps
        device non_blocking: {_CPU}
        dtype (bias): {_LAYER_DTYPE}
        dtype (dropout): {_LAYER_DTYPE}
        inplace: arguments are never changed, leave it out
        out: results are new arrays, leave it out
        training (dropout_p): dropout_p acts whenever it is above 0, leave it out
        training: write layer.train() or layer.eval() before the call
        do_sample (method): give method="sample"
        early_stopping (beam_size): the search ends when all beams have ended, leave it out
        beta1 beta2 beta_1 beta_2 momentum (betas): give both rates as betas=(0.9, 0.999)
        amsgrad maximize foreach fused capturable (lr): there is one form of each optimizer, leave it out
        initial_lr (lr params): schedules keep it themselves, leave it out
        name param_names (lr params): groups have no names, leave it out
        create_graph (gradient retain_graph): write qkv.grad(output, inputs, create_graph=True)
        requires_grad (dtype rng): write qkv.tensor(numbers, requires_grad=True)
        size shape (dtype rng): sizes are given one by one, as in randn(2, 3)
        unbiased correction (ddof): give ddof=1, or 0 for the mean of the squares
        return_attention return_attn (return_weights): did you mean return_weights?
        set_to_none: gradients are always set to None, leave it out
        allow_unused (inputs): inputs that do not take part get zeros, leave it out
        norm_type (max_norm): the norm is the Euclidean one, leave it out
        size_average reduce (reduction): give reduction="mean", "sum" or "none"
        num_layers (num_encoder_layers): give num_encoder_layers and num_decoder_layers
        """
    ),
    _renamed(
        "PyTorch",
        """
        dim: axis
        dim0: a
        dim1: b
        keepdim: keepdims
        dropout_p: dropout
        p: dropout
        dropout: dropout_p p
        input: x queries query ids logits predictions log_probs
        target: targets y
        other: b
        tensor tensors: arrays x
        generator: rng
        query: queries
        key: keys
        value: values
        embed_dim: d_model num_hiddens in_features embed_size
        num_heads: nhead
        nhead: num_heads
        d_model: embed_dim num_hiddens
        hidden_size: num_hiddens embed_dim d_model out_features
        min: low
        max: high
        grad_outputs grad_output: gradient
        outputs: output
        T_max: total_steps
        """,
    ),
    _renamed("NumPy", "a: x\na_min: low\na_max: high\nshape: size\nseed: rng"),
    _renamed("scikit-learn", "random_state: rng\ngamma sigma length_scale: bandwidth"),
    _renamed(
        "Hugging Face",
        """
        num_attention_heads n_heads n_head: num_heads nhead
        num_hidden_layers n_layers n_layer: num_layers
        intermediate_size: dim_feedforward
        num_key_value_heads: num_kv_heads
        hidden_act: activation
        layer_norm_epsilon layer_norm_eps rms_norm_eps: eps
        attention_dropout attention_probs_dropout_prob hidden_dropout_prob: dropout
        past_key_values past_key_value layer_past: cache
        max_length max_new_tokens max_position_embeddings: max_len
        max_len max_length max_seq_len max_cache_len: capacity
        num_beams: beam_size
        eos_token_id: end_id end
        bos_token_id decoder_start_token_id: start_id start
        pad_token_id: pad_id
        labels: targets
        sliding_window: window
        num_training_steps: total_steps
        num_warmup_steps: warmup_steps
        """,
    ),
    _renamed(
        "Keras",
        """
        units: out_features hidden_size num_hiddens
        use_bias: bias
        rate: p dropout
        epsilon: eps
        learning_rate: lr
        input_dim: num_embeddings in_features
        output_dim: embedding_dim out_features
        key_dim: head_dim
        use_causal_mask: is_causal
        """,
    ),
    _renamed(
        "FlashAttention",
        """
        softmax_scale sm_scale: scale
        causal: is_causal
        window_size: window
        q: query queries
        k: key keys
        v: value values
        """,
    ),
    _renamed(
        "d2l",
        """
        valid_len enc_valid_lens: valid_lens
        num_hiddens: embed_dim d_model hidden_size
        ffn_num_hiddens: dim_feedforward
        ffn_num_input: d_model
        num_blks: num_layers
        norm_shape: normalized_shape
        query_size: embed_dim
        key_size: kdim
        value_size: vdim
        """,
    ),
)

# Entries of a model's configuration, given beside its files.
ENTRIES = _joined(
    _said(
        f"""
        torch_dtype: write dtype="float64" or dtype="bfloat16"
        device_map max_memory offload_folder low_cpu_mem_usage: {_CPU}
        load_in_4bit load_in_8bit quantization_config: models are not quantized when they are loaded; a \
            .gguf file may be quantized
        attn_implementation: there is one form of attention, leave it out
        trust_remote_code revision cache_dir token local_files_only force_download subfolder: models \
            are folders of this machine, whose code is qkv's; leave it out
        output_attentions: {_READ_WEIGHTS}
        output_hidden_states: write model(ids, output_hidden_states=True)
        gguf_file: write from_pretrained("folder/file.gguf")
        """
    ),
    _renamed(
        "other models",
        """
        n_embd d_model dim embed_dim: hidden_size
        n_layer n_layers num_layers: num_hidden_layers
        n_head n_heads num_heads nhead: num_attention_heads
        n_positions max_len: max_position_embeddings
        dropout: hidden_dropout_prob
        """,
    ),
)

# Attributes of objects, by a class of theirs.
ATTRIBUTES = {
    "Vocabulary": _said(
        """
        token_to_idx stoi get get_stoi: write vocabulary[token]
        idx_to_token itos get_itos lookup_token: write vocabulary.tokens[number]
        to_tokens lookup_tokens: write vocabulary.decode(ids), or vocabulary.tokens[number]
        lookup_indices to_ids: write vocabulary.encode(tokens)
        unk unk_id unk_index: did you mean unknown_id?
        """
    ),
    "Tensor": _joined(
        _said("\n".join(f"{name}: write {instead}" for name, instead in METHODS.items())),
        _said(
            f"""
            device is_cuda pin_memory: {_CPU}
            scatter scatter_: write t[indices] = values
            index_add index_add_ scatter_add scatter_add_: write t + qkv.one_hot(indices, n).T @ values
            is_contiguous: its numbers always lie in order, leave it out
            mT: write t.swapaxes(-1, -2)
            """
        ),
        _renamed("PyTorch", "ndimension: ndim"),
    ),
    "Module": _joined(
        _said(
            f"""
            cuda cpu device: {_CPU}
            float: write layer.to("float32")
            double: write layer.to("float64")
            half bfloat16: write layer.to("bfloat16")
            requires_grad_: set requires_grad of each of layer.parameters()
            in_proj_weight (q_proj): the three are q_proj.weight, k_proj.weight and v_proj.weight
            in_proj_bias (q_proj): the three are q_proj.bias, k_proj.bias and v_proj.bias
            weights attn attention attention_scores (attention_weights): did you mean attention_weights?
            forward: define forward(self, ...) in your class
            register_full_backward_hook register_backward_hook (register_forward_hook): backward has no hooks, \
                forward has: register_forward_hook and register_forward_pre_hook
            register_forward_hook register_forward_pre_hook register_full_backward_hook: there are no \
                hooks; override forward in a subclass and call super().forward(...)
            compile: nothing is compiled, leave it out
            summary: print(layer) shows its parts, layer.num_parameters() counts
            """
        ),
        _renamed("PyTorch", "add_module: register_module"),
        _renamed(
            "Keras",
            """
            get_weights: state_dict
            set_weights: load_state_dict
            trainable_variables: parameters
            count_params: num_parameters
            """,
        ),
    ),
    "Optimizer": _joined(
        _said(
            """
            state (state_dict): write optimizer.state_dict()["state"]
            defaults (param_groups): options stand in optimizer.param_groups
            weight_decay (param_groups): write group["NAME"] for group in optimizer.param_groups
            minimize: write loss.backward(), then optimizer.step()
            """
        ),
        _renamed("Keras", "learning_rate: lr"),
    ),
    "SGD": _said('momentum nesterov (param_groups): write group["NAME"] for group in optimizer.param_groups'),
    **dict.fromkeys(
        ["Adam", "AdamW"],
        _said('betas eps (param_groups): write group["NAME"] for group in optimizer.param_groups'),
    ),
    "Schedule": _said(
        """
        get_last_lr get_lr: read optimizer.lr, or group["lr"] for group in optimizer.param_groups
        base_lrs (base_lr): base_lr is the largest, and shares are those of the groups
        last_epoch (count): count is the update that comes next, from 1
        lr lr_lambdas (lr_at): schedule.lr_at(n) is the rate of update n
        """
    ),
    "ParameterGroup": _said(
        """
        setdefault pop popitem clear: a group has the options of its optimizer; assign group["lr"] = ...
        lr weight_decay momentum nesterov betas eps params: write group["NAME"]
        """
    ),
}

# Names of modules; one that exists elsewhere in qkv is found without a line.
NAMES = _joined(
    _renamed(
        "PyTorch",
        """
        cat concat: concatenate
        from_numpy as_tensor FloatTensor LongTensor: tensor
        mm bmm: matmul
        lr_scheduler StepLR LambdaLR: Schedule
        CosineAnnealingLR: CosineSchedule
        LinearLR: LinearSchedule
        ConstantLR: ConstantSchedule
        clip_grad_norm_: clip_grad_norm
        xavier_uniform_: xavier_uniform
        xavier_normal_: xavier_normal
        kaiming_uniform_: kaiming_uniform
        normal_: normal
        uniform_: uniform
        mse_loss: mse
        sdpa: scaled_dot_product_attention
        generate_square_subsequent_mask subsequent_mask: causal
        """,
    ),
    _renamed("NumPy", "array asarray: tensor\nseed: manual_seed\nvstack hstack: concatenate"),
    _renamed("Keras", "Dense: Linear\nLayerNormalization: LayerNorm"),
    _said(
        """
        CrossEntropyLoss: it is a function: qkv.losses.cross_entropy(logits, targets)
        NLLLoss: it is a function: qkv.losses.nll_loss(log_probs, targets)
        MSELoss mse_loss: it is a function: qkv.losses.mse(predictions, targets)
        DataLoader: batches are made by qkv.data.Batches
        functional: functions stand in qkv and in qkv.losses
        Softmax: it is a function: qkv.softmax(x)
        Sigmoid: it is a function: qkv.sigmoid(x)
        LSTM RNN: the recurrent layer is qkv.nn.GRU
        load load_model (from_pretrained): write from_pretrained(folder)
        AutoModel AutoModelForCausalLM AutoModelForSeq2SeqLM AutoModelForMaskedLM \
            AutoModelForImageClassification AutoModelForSequenceClassification \
            AutoModelForTokenClassification AutoModelForQuestionAnswering BERT GPT2 GPT2Model \
            GPT2LMHeadModel Llama LlamaModel LlamaForCausalLM T5 T5EncoderModel \
            T5ForConditionalGeneration ViT: write qkv.models.from_pretrained(folder); the type of the \
            model stands in its config.json
        AutoTokenizer PreTrainedTokenizerFast BertTokenizer LlamaTokenizer: write \
            qkv.models.Tokenizer.from_pretrained(folder)
        AutoConfig: write qkv.models.from_config(entries)
        SentenceTransformer: write qkv.models.SentenceEncoder.from_pretrained(folder)
        pipeline: write qkv.models.from_pretrained(folder) for a model, and SentenceEncoder, CrossEncoder \
            or Tokenizer for texts
        TextStreamer TextIteratorStreamer: write on_token=tokenizer.stream(print) in generate
        flex_attention create_block_mask BlockMask: give scaled_dot_product_attention score_mod= and \
            mask_mod=; qkv.torch.nn.attention has PyTorch's names
        save: write qkv.training.save_arrays(path, layer.state_dict()); a model of qkv.models has \
            save_pretrained(folder)
        load: write layer.load_state_dict(qkv.training.load_arrays(path)[0]); folders of models are read by \
            qkv.models.from_pretrained(folder)
        attention: write qkv.scaled_dot_product_attention(query, key, value); layers are in qkv.nn
        info (show_config): write qkv.show_config()
        device cuda: everything is computed on the CPU
        autograd: gradients are t.backward(), qkv.grad and qkv.jacobian
        enable_grad inference_mode set_grad_enabled (no_grad): write with qkv.no_grad():
        compile jit: nothing is compiled, leave it out
        vmap: functions and layers take the axis of a batch
        utils: gradients are clipped by qkv.optim.clip_grad_norm, batches made by qkv.data.Batches
        F: functions stand in qkv and in qkv.losses
        RMSprop Adagrad Adadelta Adamax NAdam RAdam LBFGS: the optimizers are SGD, Adam and AdamW
        zeros_ ones_ constant_ trunc_normal_ orthogonal_ eye_: write t.copy_(numbers) under qkv.no_grad()
        is_tensor: write isinstance(x, qkv.Tensor)
        head_view_html (head_view): write head_view(weights, tokens), with a list of layers for all of them
        model_view (layer_view): write layer_view(weights, tokens)
        float16 bfloat16 float32 float64 int64 int32: dtypes are NumPy's, or names: "NAME"
        pad_sequence (pad): write pad(sequences, pad_id=0).ids
        sequence_mask: it is qkv.masks.lengths(valid_lens, max_len)
        sum mean max min reshape transpose: it is a method: t.NAME(...); np.NAME(t, ...) works, too
        zeros ones full eye arange linspace: write np.NAME(...), or qkv.tensor(np.NAME(...)) for a Tensor
        zeros_like ones_like full_like tril triu: NumPy has it, and takes Tensors: np.NAME
        """
    ),
)
