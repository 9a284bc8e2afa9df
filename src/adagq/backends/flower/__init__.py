"""Real federations on Flower: the only place that imports `flwr`. `adagq.flower` is what users import.

    server   strategy.Compressed → rounds.federate → backend.Nodes → courier.Courier → Flower's Grid
    node     node.register → client.receive, probe, work → shelf.Shelf (the node's disk)

`records` has the wire form of the messages, `links` turns measured seconds into rates, `roster` gives nodes the
small integers that the loop calls clients.
"""
