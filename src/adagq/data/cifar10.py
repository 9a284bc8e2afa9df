"""cifar10: 32x32 colour images in ten classes, from a local folder."""

from adagq.data.files import read_binary, read_python
from adagq.data.folders import FolderData, register_folder

CIFAR10 = register_folder(
    FolderData(
        "cifar10",
        (3, 32, 32),
        10,
        ("cifar-10-batches-py", "cifar-10-batches-bin", "cifar10", "cifar-10", "CIFAR10"),
        (),
        (read_python, read_binary),
        "python batches (cifar-10-batches-py), binary batches (cifar-10-batches-bin) or cifar10.npz",
    )
)
