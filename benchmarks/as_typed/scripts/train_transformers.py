"""MiniLM on SST-2 by transformers.Trainer, until an accuracy on dev.

python train_transformers.py minilm train.csv dev.csv [--rows 32] [--lr 1e-4]

Dynamic padding and batches grouped by length, as the documentation of text classification and of
faster training says; it ends at the first evaluation that reaches the accuracy.
"""

import argparse

import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("train")
parser.add_argument("dev")
parser.add_argument("--until", type=float, default=0.87)
parser.add_argument("--rows", type=int, default=32)
parser.add_argument("--lr", type=float, default=1e-4)
parser.add_argument("--steps", type=int, default=800)
parser.add_argument("--evaluate-every", type=int, default=100)
options = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(options.model)
model = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=2)
files = {"train": options.train, "dev": options.dev}
data = load_dataset("csv", data_files=files, cache_dir="datasets").map(
    lambda rows: tokenizer(rows["sentence"], truncation=True, max_length=64), batched=True
)


class StopWhenReached(TrainerCallback):
    def on_evaluate(self, args, state, control, metrics, **others):
        print(f"step {state.global_step}: accuracy {metrics['eval_accuracy']:.4f}", flush=True)
        control.should_training_stop |= metrics["eval_accuracy"] >= options.until


def accuracy(predictions):
    return {"accuracy": float(np.mean(predictions.predictions.argmax(-1) == predictions.label_ids))}


trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="trainer",
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        max_steps=options.steps,
        learning_rate=options.lr,
        warmup_steps=options.steps // 20,
        lr_scheduler_type="cosine",
        per_device_train_batch_size=options.rows,
        per_device_eval_batch_size=64,
        train_sampling_strategy="group_by_length",
        eval_strategy="steps",
        eval_steps=options.evaluate_every,
        save_strategy="no",
        logging_steps=50,
    ),
    train_dataset=data["train"],
    eval_dataset=data["dev"],
    processing_class=tokenizer,
    data_collator=DataCollatorWithPadding(tokenizer),
    compute_metrics=accuracy,
    callbacks=[StopWhenReached()],
)
trainer.train()
trainer.save_model("trainer/final")
