"""Controllers: who sends how much, decided from facts alone.

A controller is a frozen value with pure methods over a frozen state; no I/O, no clock, no torch:

    state = controller.init(clients)                     # clients: how many
    state = controller.observe(state, facts)             # step 3b of every round, before choose
    choices = controller.choose(state, cohort)           # {client: Choice} for this round's uploads
    probes = controller.probe(state, cohort)             # what step 1 of the *next* round asks for
    state.to_json() / controller.from_json(data)         # for checkpoints

`choose` depends on the state only; the loop calls it once a round right after `observe`.
"""
