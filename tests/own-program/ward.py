"""The program of a real rank, run by a child of a nursery: ward.py DOOR MODULE CASE OUTPUT.

Hands over environment, folder and output, adds the rank to OUTPUT, and ends as the child did."""

import json
import os
import signal
import socket
import sys

door, module, case, output = sys.argv[1:]
mine = {k: v for k, v in os.environ.items() if k.startswith(("EVENSTEP_", "TEST_", "KERAS_"))}
order = {"module": module, "case": case, "environ": mine, "folder": os.getcwd(),
         "output": "%s-%s" % (output, os.environ["EVENSTEP_RANK"])}
nursery = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
nursery.connect(door)
socket.send_fds(nursery, [json.dumps(order).encode()], [1])
code = int(nursery.recv(16) or 1)
if code < 0:
    os.kill(os.getpid(), -code)
    signal.pause()
sys.exit(code)
