"""fashion-mnist: 28x28 grey images of clothes in ten classes, from a local folder."""

from adagq.data.files import read_idx
from adagq.data.folders import FolderData, register_folder

FASHION_MNIST = register_folder(
    FolderData(
        "fashion-mnist",
        (1, 28, 28),
        10,
        ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "FashionMNIST"),
        ("/usr/share/datasets/fashion-mnist",),
        (read_idx,),
        "IDX files (train-images-idx3-ubyte … t10k-labels-idx1-ubyte, plain or .gz) or fashion-mnist.npz",
    )
)
