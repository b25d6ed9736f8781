"""transformers: a Trainer of a small GPT-2, with warm-up, clipping and an evaluation each epoch.
Texts differ in length, so batches differ in their tokens."""
import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

import evenstep


class Texts(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        draw = torch.Generator().manual_seed(seed)
        self.texts = torch.randint(1, 40, (n, 12), generator=draw)
        self.lengths = torch.randint(6, 13, (n,), generator=draw)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        there = torch.arange(12) < self.lengths[i]
        return {"input_ids": self.texts[i], "attention_mask": there.long(),
                "labels": torch.where(there, self.texts[i], -100)}


class InOrder(Trainer):
    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


set_seed(3)
model = GPT2LMHeadModel(GPT2Config(
    vocab_size=40, n_positions=12, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0,
    attn_pdrop=0, bos_token_id=0, eos_token_id=0))
arguments = TrainingArguments(
    output_dir=os.environ.get("EVENSTEP_OUTPUT", "out"), num_train_epochs=3, learning_rate=1e-2,
    per_device_train_batch_size=32, adam_epsilon=1e-3, warmup_steps=2, eval_strategy="epoch",
    save_strategy="no", logging_steps=2, report_to=[], use_cpu=True, disable_tqdm=True)
trainer = evenstep.prepare(InOrder(
    model=model, args=arguments, train_dataset=Texts(96, 1), eval_dataset=Texts(32, 2)))
trainer.train()
