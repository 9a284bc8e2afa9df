"""Whole federations on one machine: real Flower processes, real messages, one command.

    with Federation(nodes=4, folder=folder) as federation:
        federation.run(app_dir, {"num-server-rounds": 3})

`local` runs a config on it and fills a run directory; `app` is the Flower app that does so; `processes` sees to it that
nothing stays behind; `certificates` makes what TLS and node authentication need.
"""
