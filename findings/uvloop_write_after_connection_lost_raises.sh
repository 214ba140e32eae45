#!/usr/bin/env bash
# On uvloop, writing to a transport after `connection_lost` raises a RuntimeError; on asyncio it does nothing.
#
# Version:  uvloop 0.23.0, Python 3.11
# Source:   README of uvloop ("drop-in replacement of the built-in asyncio event loop"); asyncio's reference of
#           `WriteTransport.write`, which names no error; uvloop/handles/handle.pyx, `_ensure_alive`
# Expected: as on asyncio: data for a client that has left is dropped, with a warning from the fifth write on
# Observed: every write raises "RuntimeError: unable to perform operation on <TCPTransport closed=True ...>; the handler
#           is closed", so that a server that answers pipelined requests logs a traceback for a client that hung up
# Way out:  remember `connection_lost`, and write nothing afterwards; `is_closing()` is true on both
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet uvloop==0.23.0
cat >check.py <<'PYTHON'
import asyncio
import logging
import socket

import uvloop

warnings = []


class Listener(logging.Handler):
    def emit(self, record):
        warnings.append(record.getMessage())


class Server(asyncio.Protocol):
    def __init__(self, lost):
        self.lost = lost

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.lost.set_result(self.transport)


async def write_after_the_end():
    loop = asyncio.get_running_loop()
    lost = loop.create_future()
    server = await loop.create_server(lambda: Server(lost), "127.0.0.1", 0)
    socket.create_connection(server.sockets[0].getsockname()).close()
    transport = await lost
    outcomes = []
    for _ in range(6):
        try:
            transport.write(b"late")
            outcomes.append("nothing")
        except RuntimeError as error:
            outcomes.append(str(error))
    return transport.is_closing(), outcomes


logging.getLogger("asyncio").addHandler(Listener())
for name, run in {"asyncio": asyncio.run, "uvloop": uvloop.run}.items():
    warnings.clear()
    closing, outcomes = run(write_after_the_end())
    print(f"{name}: is_closing {closing}, write: {outcomes[0]}; warnings: {warnings}")
    assert closing
    if name == "asyncio":
        assert outcomes == ["nothing"] * 6 and set(warnings) == {"socket.send() raised exception."}
    else:
        assert all("the handler is closed" in outcome for outcome in outcomes) and not warnings
PYTHON
venv/bin/python check.py
