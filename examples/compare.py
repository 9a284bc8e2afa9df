"""Compare two ways to train over slow links, print the table and draw accuracy over time."""

import rich

import adagq

result = adagq.compare(
    methods=["fedavg", "adagq-auto"],
    training={"target": 0.8, "max_rounds": 40},
    task={"clients": 8, "samples_per_client": 100},
    fleet={"uplink_mbps": [2, 20], "downlink_mbps": 50},
)
rich.print(result.table())
print(result.plot("accuracy.svg"))
print(result.report("report.html"))
