"""Other names of settings: those of other tools and earlier ones of regard, for "did you mean".

An unknown key in a recipe is answered with the first of its synonyms that its table has. Where the
number changes with the name, `VALUE_HINTS` says how to convert it.
"""

from __future__ import annotations

from collections.abc import Mapping

_OTHER_NAMES: Mapping[str, str] = {
    # recipe
    "init_from": "start resume_from pretrained pretrained_model checkpoint from_pretrained ckpt",
    "data": "dataset",
    "train": "training trainer optimizer",
    "adapt": "adapter peft lora",
    "evaluate": "evaluation eval",
    "samples": "sample generation generate",
    # data
    "corpus": "dataset dataset_name data_path train_file train_files",
    "text": "text_column text_field content",
    "dev": "val valid validation eval val_split validation_split val_fraction dev_fraction",
    "split_seed": "seed",
    "max_tokens": "cut longest max_length max_seq_len max_seq_length truncation",
    "limit": "max_samples max_train_samples num_samples",
    "group": "group_by",
    # tokenizer
    "vocabulary": "vocab_size vocab n_vocab",
    "minimum_count": "min_frequency min_freq min_count",
    "max_piece_length": "longest_piece",
    "sentinels": "extra_ids",
    # model
    "context": (
        "block_size max_position_embeddings max_seq_len max_seq_length seq_len sequence_length "
        "n_positions n_ctx context_length max_length"
    ),
    "layers": "n n_layer n_layers num_layers num_hidden_layers depth",
    "heads": "n_head n_heads nhead num_heads num_attention_heads",
    "key_value_heads": "n_kv_head n_kv_heads num_kv_heads num_key_value_heads kv_heads",
    "width": "dim d_model hidden_size n_embd embed_dim model_dim emb_dim",
    "mlp_width": (
        "feed_forward intermediate_size d_ff ffn_dim n_inner hidden_dim dim_feedforward mlp_dim "
        "ffn_hidden_size mlp_ratio"
    ),
    "activation": "hidden_act act_fn activation_function",
    "norm_placement": "norm_place norm_first pre_norm",
    "norm_eps": "layer_norm_eps layer_norm_epsilon rms_norm_eps",
    "biases": "bias use_bias",
    "tied": "tie_word_embeddings tie_embeddings weight_tying",
    "dropout": "hidden_dropout_prob resid_pdrop dropout_rate lora_dropout",
    "attention_dropout": "attention_probs_dropout_prob attn_pdrop attn_dropout",
    "init_std": "starting_deviation initializer_range std",
    "positions": "position_embedding_type positional_encoding pos_emb",
    "position_width": "own_width",
    "base": "rope_theta theta",
    "cross_attention": "source_attention",
    "segments": "texts type_vocab_size",
    "head_transform": "output_network",
    "patch_dim": "patch_values",
    # objective
    "masking_rate": "share mask_prob mask_ratio mlm_probability",
    "corruption_rate": "share mask_prob noise_density",
    "replace_with_mask": "as_mask",
    "replace_with_random": "as_random",
    "mean_length": "mean_noise_span_length mean_span_length",
    "geometric_p": "ending",
    "max_span_words": "longest max_span_length",
    "min_tokens": "shortest",
    "max_context_fraction": "longest",
    "min_prefix_fraction": "shortest",
    "max_prefix_fraction": "longest",
    "length_jitter": "spread",
    "cue_weight": "favour",
    # task
    "min_score": "lowest",
    "max_score": "highest",
    "max_pixel": "full_ink",
    "mask_tokens": "marks",
    "max_answer_tokens": "longest_answer max_answer_length",
    "max_new_tokens": "max_new most_new max_length max_tokens",
    "beams": "num_beams beam_size beam_width",
    "smoothing": "label_smoothing",
    "stride": "doc_stride",
    # adapt
    "rank": "r lora_r",
    "alpha": "lora_alpha",
    "targets": "target_modules",
    "length": "num_virtual_tokens",
    "init": "start prompt_tuning_init",
    # train
    "lr": "learning_rate peak_lr max_lr",
    "min_lr_ratio": "lr_floor min_lr lr_min",
    "warmup_ratio": "warmup warmup_steps warmup_iters num_warmup_steps",
    "weight_decay": "wd",
    "max_grad_norm": "clip grad_clip gradient_clip_val clip_grad_norm gradient_clipping",
    "max_steps": "steps max_iters num_steps total_steps train_steps max_train_steps",
    "epochs": "num_epochs num_train_epochs max_epochs",
    "batch_tokens": "batch_size per_device_train_batch_size",
    "accumulate": "gradient_accumulation_steps grad_accum accumulate_grad_batches",
    "seed": "random_seed",
    "evaluate_every": "eval_every eval_steps eval_interval",
    "patience": "early_stopping_patience",
    "checkpoint_every": "save_every save_steps save_interval",
    "keep_checkpoints": "save_total_limit",
    "threads": "num_threads",
}
"For each setting its other names."

_TOKENS = "It counts tokens (rows × context, padding included), not rows."
_WARMUP = "It is a fraction of all steps: warm-up steps / max_steps."
_MIN_LR = "It is a fraction of lr: minimum / lr."
_ACCUMULATE = "It splits the batch of batch_tokens into micro-batches; the update stays the same."
_NORM = 'It takes "pre" or "post".'

VALUE_HINTS: Mapping[str, str] = {
    "batch_size": _TOKENS,
    "per_device_train_batch_size": _TOKENS,
    "warmup_steps": _WARMUP,
    "warmup_iters": _WARMUP,
    "num_warmup_steps": _WARMUP,
    "min_lr": _MIN_LR,
    "lr_min": _MIN_LR,
    "gradient_accumulation_steps": _ACCUMULATE,
    "grad_accum": _ACCUMULATE,
    "accumulate_grad_batches": _ACCUMULATE,
    "mlp_ratio": "It is absolute: mlp_ratio × width.",
    "norm_first": _NORM,
    "pre_norm": _NORM,
}
"How the value changes, for names whose number means something else here."


SYNONYMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(ours for ours, others in _OTHER_NAMES.items() if name in others.split())
    for name in sorted({name for others in _OTHER_NAMES.values() for name in others.split()})
}
"""For each other name the settings it may mean: `share` is masking_rate in one objective and
corruption_rate in another."""
