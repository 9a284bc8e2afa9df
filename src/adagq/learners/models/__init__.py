"""Models by name: ResNet-18, GoogLeNet, FedAvg's CNN and MLP, an LSTM for text.

    model = build_model("resnet18", (3, 32, 32), classes=10, width=64, stem="cifar")      # 11,173,962 parameters

Importing this package registers them: one file each, named here.
"""

from importlib import import_module

from adagq.learners.models.registry import MODELS, ModelOptions, build_model

for _file in ("resnet", "googlenet", "shallow", "lstm"):
    import_module(f"adagq.learners.models.{_file}")

__all__ = ["MODELS", "ModelOptions", "build_model"]
