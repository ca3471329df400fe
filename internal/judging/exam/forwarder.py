"""Starts a service and carries bytes between it and the judge.

This program runs in the sandbox of the delivery, which can do to it what it likes: everything that leaves here
counts as the delivery's own words. The judge writes the requests and reads the answers, outside.

The channel carries frames, a length of four bytes and as many bytes. The first frame from here says whether there is
a loopback with that port free, "open" if there is; nothing of the delivery has run by then. The second says how the
service came up, "ready" if it listens. Then each frame from the judge is the whole of a request; the answer comes
in frames as the service sends it, and ends with an empty one.
"""
import select
import socket
import struct
import subprocess
import sys
import time

CHANNEL = 4
PIECE = 32768
PAUSE = 0.02  # seconds between two looks at the port
GRACE = 5.0  # seconds that a service may take to listen when what started it has ended


def main():
    """Start the service, then serve the judge until it closes the channel."""
    port, wait, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    channel = socket.socket(fileno=CHANNEL)
    send(channel, loopback(port).encode())
    try:
        starter = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as e:
        send(channel, str(e).encode())
        return
    send(channel, came_up(starter, port, wait).encode())
    while True:
        request = receive(channel)
        if request is None:
            return
        carry(channel, port, request)
        send(channel, b"")


def loopback(port):
    """Say "open" if a service can listen on the port, or why none can."""
    try:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
    except OSError as e:
        return str(e)
    return "open"


def came_up(starter, port, wait):
    """Wait until something listens; say "ready", or why it does not."""
    end = time.monotonic() + wait
    while time.monotonic() < end:
        connection = connect(port)
        if connection:
            connection.close()
            return "ready"
        if starter.poll() is not None:
            end = min(end, time.monotonic() + GRACE)
        time.sleep(PAUSE)
    if starter.poll() is None:
        return "nothing listens on port %d" % port
    return "nothing listens on port %d; what starts the service ended with exit code %d" % (port, starter.poll())


def connect(port):
    """Connect to the port on either loopback address; None if nothing listens there."""
    for address in ("127.0.0.1", "::1"):
        try:
            return socket.create_connection((address, port), timeout=5)
        except OSError:
            pass
    return None


def carry(channel, port, request):
    """Send one request on a connection of its own and carry back what comes, until the judge wants no more."""
    connection = connect(port)
    if connection is None:
        return
    with connection:
        connection.settimeout(None)
        try:
            connection.sendall(request)
            while True:
                readable, _, _ = select.select([channel, connection], [], [])
                if channel in readable:
                    return
                piece = connection.recv(PIECE)
                if not piece:
                    return
                send(channel, piece)
        except OSError:
            return


def send(channel, piece):
    """Send one frame."""
    channel.sendall(struct.pack(">I", len(piece)) + piece)


def receive(channel):
    """Receive one frame; None when the judge has closed the channel."""
    head = exactly(channel, 4)
    return None if head is None else exactly(channel, struct.unpack(">I", head)[0])


def exactly(channel, n):
    """Receive n bytes; None if the channel ends before."""
    parts = []
    while n:
        part = channel.recv(n)
        if not part:
            return None
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


main()
