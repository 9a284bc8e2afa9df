"""A tiny BERT with LoRA adapters that learns which of two words is more frequent in a sentence."""

import torch
from flwr.app import Context
from peft import LoraConfig, PeftModel, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForSequenceClassification

from adagq import LoopLearner

VOCABULARY, LENGTH = 20, 12


def build() -> PeftModel:
    """Return the same model on every node: one from a config here, `from_pretrained("…")` in earnest."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    base = BertForSequenceClassification(BertConfig(vocab_size=VOCABULARY, num_labels=2, **sizes))
    lora = LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=16, target_modules=["query", "value"])
    return get_peft_model(base, lora)


def sentences(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    words = torch.randint(1, VOCABULARY, (samples, LENGTH), generator=torch.Generator().manual_seed(seed))
    return words, ((words < VOCABULARY // 2).sum(1) > LENGTH // 2).long()


def learner(context: Context) -> LoopLearner:
    """Return this node's model and data."""
    seed = int(context.node_config["partition-id"])
    words, labels = sentences(400, seed)
    test_words, test_labels = sentences(100, 1000 + seed)

    def train(model: PeftModel, epochs: int, lr: float) -> float:
        optimizer, total = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9), 0.0
        for _ in range(epochs):
            for rows in torch.randperm(len(labels)).split(20):
                optimizer.zero_grad()
                loss = cross_entropy(model(input_ids=words[rows]).logits, labels[rows])
                loss.backward()
                optimizer.step()
                total += loss.item() * len(rows)
        return total / epochs / len(labels)

    def evaluate(model: PeftModel) -> dict[str, float]:
        logits = model(input_ids=test_words).logits
        accuracy = (logits.argmax(1) == test_labels).float().mean().item()
        return {"eval_loss": cross_entropy(logits, test_labels).item(), "eval_acc": accuracy}

    return LoopLearner(
        build(),
        train,
        examples=len(labels),
        loss=lambda model: evaluate(model)["eval_loss"],
        evaluate=evaluate,
        held_out=len(test_labels),
    )
