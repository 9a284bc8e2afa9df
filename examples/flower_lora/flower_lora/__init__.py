"""LoRA adapters of a Hugging Face model on Flower, with updates that fit the nodes' links."""
