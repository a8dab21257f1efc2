"""S3 server on a free loopback port. Prints its address and serves until its standard input ends."""

import sys
import urllib.request

from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/{sys.argv[1]}", method="PUT")).close()
print(f"http://{host}:{port}", flush=True)
sys.stdin.read()
server.stop()
