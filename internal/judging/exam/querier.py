"""Asks a database that a stranger made, in a sandbox of its own.

It reads {"engine", "queries", "most"} from standard input and writes one line of JSON for each query to descriptor
3: {"rows": [[...], ...]} or {"error": "..."}. For SQLite the database is the file whose path is in "database";
nothing of the delivery runs beside this. For PostgreSQL it first makes a server on a Unix socket and says
{"up": true}, then runs its own arguments, which fill the database, then asks; there the delivery runs beside the
server, and the answers are the delivery's own words.
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from urllib.parse import quote

RESULTS = 3
SOCKETS = tempfile.gettempdir()
WORDS = 100_000  # bytes of one value


def main():
    """Answer the queries in their order."""
    order = json.load(sys.stdin)
    ask = ask_sqlite(order) if order["engine"] == "sqlite" else ask_postgresql(order)
    with os.fdopen(RESULTS, "w") as results:
        for query in order["queries"]:
            try:
                answer = {"rows": [[plain(v) for v in row] for row in ask(query, order["most"])]}
            except Exception as e:  # whatever is wrong with the query or the database
                answer = {"error": "%s: %s" % (type(e).__name__, e)}
            results.write(json.dumps(answer) + "\n")


def ask_sqlite(order):
    """Open a file that may be anything, with nothing switched on that it could use."""
    import sqlite3

    if not os.path.exists(order["database"]):
        raise SystemExit("there is no database")
    db = sqlite3.connect("file:%s?mode=rw" % quote(order["database"]), uri=True, isolation_level=None)
    for limit, most in (("LENGTH", WORDS * 10), ("ATTACHED", 0), ("VDBE_OP", 250_000), ("TRIGGER_DEPTH", 10)):
        if hasattr(db, "setlimit"):
            db.setlimit(getattr(sqlite3, "SQLITE_LIMIT_" + limit), most)
    for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "query_only=ON"):
        db.execute("PRAGMA " + pragma)
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, getattr(sqlite3, "SQLITE_RECURSIVE", 33)}

    def authorize(action, *_):
        return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY

    def ask(query, most):
        db.set_authorizer(authorize)
        return db.execute(query).fetchmany(most)

    return ask


def ask_postgresql(order):
    """Make a server that only this sandbox can reach, and let the delivery fill it."""
    data = SOCKETS + "/postgresql"
    bin = order["programs"] + "/"
    quietly(bin + "initdb", "-D", data, "-U", "judge", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
    settings = {
        "listen_addresses": "", "unix_socket_directories": SOCKETS, "shared_buffers": "8MB", "fsync": "off",
        "max_connections": "20", "dynamic_shared_memory_type": "posix", "max_wal_size": "32MB", "autovacuum": "off",
        "max_worker_processes": "0", "max_parallel_workers": "0", "full_page_writes": "off", "wal_level": "minimal",
        "max_wal_senders": "0", "min_wal_size": "32MB",
    }
    options = [word for k, v in settings.items() for word in ("-c", "%s=%s" % (k, v))]
    server = subprocess.Popen([bin + "postgres", "-D", data] + options, stdout=subprocess.DEVNULL)
    await_server(bin, server)
    quietly(bin + "createdb", "-h", SOCKETS, "-U", "judge", "judged")
    os.write(RESULTS, b'{"up": true}\n')  # from here on, what goes wrong may be the delivery's doing
    os.environ.update(PGHOST=SOCKETS, PGUSER="judge", PGDATABASE="judged")
    os.environ["DATABASE_URL"] = "postgresql://judge@/judged?host=" + SOCKETS
    subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, check=True)
    return lambda query, most: ask_psql(bin, query, most)


def quietly(*argv):
    """Run a program that must do well and has nothing to say."""
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def await_server(bin, server):
    """Wait until the server takes connections."""
    while subprocess.run([bin + "pg_isready", "-q", "-h", SOCKETS]).returncode != 0:
        if server.poll() is not None:
            raise SystemExit("the server did not start")
        time.sleep(0.05)


def ask_psql(bin, query, most):
    """Ask for rows as JSON, which keeps numbers and texts apart."""
    wrapped = "SELECT (SELECT coalesce(json_agg(value), '[]') FROM json_each(row_to_json(r))) FROM (%s) r LIMIT %d" % (
        query.strip().rstrip(";"), most)
    argv = [bin + "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", SOCKETS, "-U", "judge", "-d", "judged", "-c", wrapped]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return [json.loads(line) for line in done.stdout.splitlines()]


def plain(value):
    """Bring a value into a form that JSON has."""
    if isinstance(value, bytes):
        return {"hex": value[:WORDS].hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return value[:WORDS]
    return value


main()
