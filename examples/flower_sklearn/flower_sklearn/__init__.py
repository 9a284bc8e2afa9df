"""A scikit-learn classifier on Flower, with updates that fit the nodes' links."""
