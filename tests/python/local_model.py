"""OpenAI-compatible server of a small language model: SmolLM2-135M on llama.cpp.

Usage: local_model.py WEIGHTS. Prints its address as one line, and serves until its standard input ends.
"""

import os
import sys

import xllamacpp


def main(weights):
    # llama.cpp writes its log to both outputs; the address must be alone on ours.
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    settings = xllamacpp.CommonParams()
    settings.model.path = weights
    # The defaults are a free port of this machine, and the template of the model, with tools.
    # A conversation with the definitions of a few tools.
    settings.n_ctx = 4096
    settings.n_parallel = 1
    server = xllamacpp.Server(settings)
    print(server.listening_address, file=own, flush=True)
    sys.stdin.read()
    # The destructor waits for idle connections.
    os._exit(0)


main(*sys.argv[1:])
