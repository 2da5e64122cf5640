"""What people mean: other names of settings, their tables, and what regard does not have.

An unknown key in a recipe is answered with the first of its synonyms that its table has; then with
the table where a setting of that name, or its synonym, belongs (`SETTING_TABLES`); then with what
regard does instead (`INSTEAD`). Where the number changes with the name, `VALUE_HINTS` says how to
convert it. Spelling is compared only if all of these are silent.
"""

from __future__ import annotations

from collections.abc import Mapping

_OTHER_NAMES: Mapping[str, str] = {
    # recipe
    "name": "run_name experiment_name project_name",
    "init_from": (
        "start resume_from pretrained pretrained_model checkpoint from_pretrained ckpt "
        "model_name_or_path model_name base_model resume_from_checkpoint"
    ),
    "data": "dataset datasets",
    "train": "training trainer optimizer training_args training_arguments hyperparameters",
    "adapt": "adapter peft lora",
    "evaluate": "evaluation eval",
    "samples": "sample generation generate",
    # data
    "corpus": "dataset dataset_name data_path train_file train_files",
    "text": "text_column text_field content",
    "dev": "val valid validation eval val_split validation_split val_fraction dev_fraction",
    "split_seed": "seed",
    "max_tokens": "cut longest max_length max_seq_len max_seq_length truncation",
    "limit": "max_samples max_train_samples num_samples max_documents",
    "group": "group_by groups",
    # tokenizer
    "vocabulary": "vocab_size vocab n_vocab vocabulary_size",
    "minimum_count": "min_frequency min_freq min_count minimum_frequency",
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
    "activation": "hidden_act act_fn activation_function act nonlinearity",
    "norm": "norm_type normalization layer_norm rmsnorm",
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
    "weight_decay": "wd l2 decay",
    "max_grad_norm": "clip grad_clip gradient_clip_val clip_grad_norm gradient_clipping",
    "max_steps": "steps max_iters num_steps total_steps train_steps max_train_steps",
    "epochs": "num_epochs num_train_epochs max_epochs n_epochs epoch",
    "batch_tokens": (
        "batch_size per_device_train_batch_size micro_batch_size train_batch_size bs "
        "global_batch_size tokens_per_batch"
    ),
    "batches": "batching packing group_by_length bucketing",
    "accumulate": "gradient_accumulation_steps grad_accum accumulate_grad_batches",
    "seed": "random_seed random_state manual_seed rng_seed",
    "evaluate_every": "eval_every eval_steps eval_interval",
    "patience": "early_stopping_patience early_stopping early_stop",
    "checkpoint_every": "save_every save_steps save_interval",
    "keep_checkpoints": "save_total_limit",
    "compile": "torch_compile compiled use_compile jit",
    "threads": "num_threads n_threads cpu_threads",
    "device": "gpu gpus cuda use_cuda accelerator no_cuda use_cpu cpu mps n_gpu num_gpus",
    "precision": "fp16 bf16 fp32 amp mixed_precision dtype torch_dtype half autocast",
    "parallel": (
        "strategy distributed data_parallel ddp fsdp fsdp2 zero deepspeed sharding sharded "
        "parallelism dp"
    ),
    "tensorboard": "tb tensorboard_dir logging_dir",
}
"For each setting its other names."

_TOKENS = "It counts tokens (rows × context, padding included), not rows."
_WARMUP = "It is a fraction of all steps: warm-up steps / max_steps."
_MIN_LR = "It is a fraction of lr: minimum / lr."
_ACCUMULATE = "It splits the batch of batch_tokens into micro-batches; the update stays the same."
_BATCHES = 'It takes "packed", "bucketed" or "padded".'
_DEVICE = 'It takes "auto", "cpu", "cuda" or "mps"; each process uses one device.'
_PRECISION = 'It takes "auto", "fp32" or "bf16".'
_PARALLEL = 'It takes "ddp" or "fsdp", and acts where torchrun starts several processes.'
_NORM = 'It takes "pre" or "post".'

VALUE_HINTS: Mapping[str, str] = {
    "batch_size": _TOKENS,
    "per_device_train_batch_size": _TOKENS,
    "micro_batch_size": _TOKENS,
    "train_batch_size": _TOKENS,
    "global_batch_size": _TOKENS,
    "bs": _TOKENS,
    "packing": _BATCHES,
    "group_by_length": _BATCHES,
    "bucketing": _BATCHES,
    "gpu": _DEVICE,
    "gpus": _DEVICE,
    "n_gpu": _DEVICE,
    "num_gpus": _DEVICE,
    "cuda": _DEVICE,
    "use_cuda": _DEVICE,
    "no_cuda": _DEVICE,
    "use_cpu": _DEVICE,
    "cpu": _DEVICE,
    "mps": _DEVICE,
    "fp16": _PRECISION,
    "bf16": _PRECISION,
    "fp32": _PRECISION,
    "amp": _PRECISION,
    "half": _PRECISION,
    "mixed_precision": _PRECISION,
    "autocast": _PRECISION,
    "dtype": _PRECISION,
    "torch_dtype": _PRECISION,
    "strategy": _PARALLEL,
    "distributed": _PARALLEL,
    "ddp": _PARALLEL,
    "fsdp": _PARALLEL,
    "zero": _PARALLEL,
    "deepspeed": _PARALLEL,
    "warmup": _WARMUP,
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

_IN_TABLES: Mapping[str, str] = {
    "data": "corpus dev test group split_seed drop_overlap skip_bad_rows limit unit header",
    "tokenizer": "vocabulary minimum_count sentinels",
    "model": (
        "family layers heads key_value_heads width mlp_width context attention positions "
        "activation norm norm_placement norm_eps biases tied dropout attention_dropout init_std "
        "projections"
    ),
    "train": (
        "epochs max_steps batch_tokens batches accumulate lr min_lr_ratio warmup_ratio seed "
        "weight_decay max_grad_norm evaluate_every evaluate_documents patience sample_every "
        "checkpoint_every keep_checkpoints device precision compile parallel threads "
        "tensorboard"
    ),
    "adapt": "rank alpha targets",
    "evaluate": "documents ngram",
    "samples": "prompts max_new_tokens temperature top_p",
}

SETTING_TABLES: Mapping[str, str] = {
    name: table for table, names in _IN_TABLES.items() for name in names.split()
}
"The table of a recipe in which a setting belongs, for one that was written elsewhere."

_OPTIMIZER = "regard trains with AdamW; set train.lr and train.weight_decay"
_SCHEDULE = (
    "regard's learning rate warms up and decays by a cosine; set train.warmup_ratio and "
    "train.min_lr_ratio"
)
_QUANTISED = "regard trains in fp32 or bf16; set train.precision"
_LOGGING = "regard has no external logging; use train.tensorboard = true, or events.jsonl of a run"
_KERNELS = "regard chooses kernels itself; leave it out"
_LABELS = "regard finds the labels in the training rows; leave it out"
_MANY = "torchrun starts the processes: torchrun --nproc-per-node N -m regard train RECIPE"
_DIVIDED = "regard divides batches or shards the model over processes; set train.parallel"
_LOADER = "regard prepares batches in a thread of its own; set train.threads for the CPU threads"
_HUB = "regard publishes nothing; use `regard export RUN --out FOLDER`"
_FOLDER = "regard names a run's folder by name; use `regard train RECIPE --out FOLDER`"

_INSTEAD_OF: Mapping[str, str] = {
    "optimizer optim optimiser opt adam adamw sgd momentum": _OPTIMIZER,
    "beta1 beta2 betas adam_beta1 adam_beta2 adam_epsilon eps epsilon": _OPTIMIZER,
    "scheduler lr_scheduler lr_scheduler_type schedule lr_schedule lr_decay gamma": _SCHEDULE,
    "load_in_8bit load_in_4bit quantization quantize": _QUANTISED,
    "wandb use_wandb wandb_project mlflow comet report_to logger logging log_every": _LOGGING,
    "logging_steps log_interval log_level verbose": _LOGGING,
    "flash_attention use_flash_attention flash_attn": _KERNELS,
    "attn_implementation gradient_checkpointing use_cache": _KERNELS,
    "num_labels n_labels num_classes n_classes classes id2label label2id": _LABELS,
    "world_size nproc_per_node num_nodes nnodes num_processes": _MANY,
    "tp pp tensor_parallel pipeline_parallel": _DIVIDED,
    "num_workers dataloader_num_workers pin_memory prefetch prefetch_factor": _LOADER,
    "push_to_hub hub_model_id hub_token": _HUB,
    "output_dir out_dir save_dir log_dir": _FOLDER,
    "model_type architecture arch": "regard calls it family; set model.family",
    "type": "regard names a part by kind, and a model by family; set one of these",
}
INSTEAD: Mapping[str, str] = {
    name: sentence for names, sentence in _INSTEAD_OF.items() for name in names.split()
}
"What regard does instead of a setting that it does not have."

_OTHER_PARTS: Mapping[str, str] = {
    "dot": "softmax sdpa mha scaled-dot-product multi-head flash standard vanilla self-attention",
    "additive": "bahdanau mlp-attention",
    "rotary": "rope rotary-embedding",
    "sinusoidal": "sine sin-cos fourier",
    "learned": "absolute learnable embedding",
    "relative": "t5-bias relative-bias",
    "decoder": "gpt gpt2 gpt-2 nanogpt llama causal-lm decoder-only transformer",
    "encoder": "bert roberta distilbert mlm encoder-only",
    "encoder-decoder": "t5 bart seq2seq",
    "recurrent": "rnn lstm gru",
    "masked": "mlm masked-lm masked-language-model bert",
    "causal": "clm lm next-token autoregressive language-model",
    "bpe": "byte-level byte-level-bpe gpt2 tiktoken",
    "unigram": "sentencepiece spm",
    "character": "char characters char-level",
    "word": "words whitespace word-level",
    "classification": "text-classification sentiment sequence-classification classify",
    "extractive": "squad question-answering qa",
    "sliding-window": "lookback local window band swa",
    "bidirectional": "full none all",
    "lora": "peft low-rank qlora",
    "full": "finetune fine-tune full-finetuning",
}
PART_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(ours for ours, others in _OTHER_PARTS.items() if name in others.split())
    for name in sorted({name for others in _OTHER_PARTS.values() for name in others.split()})
}
"For another name of a part those that it may mean, of whatever catalogue."
