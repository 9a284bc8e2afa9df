"""An app in the shape of Flower's quickstart-pytorch, with data that are drawn."""
