"""The server: it listens, prints its address, and stops at Ctrl-C."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import uvicorn

from enlist.errors import InputError
from enlist.ui.app import create_app
from enlist.ui.guard import is_loopback
from enlist.ui.index import check_roots

PORT = 8765
MOST_CONNECTIONS = 1_500
TOKEN = "ENLIST_UI_TOKEN"
"""The environment variable for a fixed token, so that a Prometheus server does not need a new one every time."""
SHORTEST = 20


def serve(
    roots: Sequence[Path],
    host: str = "127.0.0.1",
    port: int = PORT,
    names: Collection[str] = (),
    say: Callable[[str], object] = print,
) -> None:
    """Serve the page until it is stopped.

    Parameters
    ----------
    roots : sequence of Path
        Folders that hold runs, or will.
    host : str, default "127.0.0.1"
        The address to listen on; unless it is loopback, a token is needed, which is made and shown.
    port : int, default 8765
        The port; 0 picks a free one.
    names : collection of str
        Further host names of the server, such as that of a proxy.
    say : callable
        Called with the address of the page, including the token.
    """
    check_roots(roots)
    token = None if is_loopback(host) else new_token()
    with listen(host, port) as listening:
        port = int(listening.getsockname()[1])
        app = create_app(roots, host=host, port=port, token=token, names=names)
        say(address(host, port, token))
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # it would log the address of the first visit, which holds the token
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=20,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=32_768,
        )
        uvicorn.Server(config).run(sockets=[listening])


def new_token() -> str:
    """The token from the environment, or a new one.

    >>> len(new_token()) >= 40
    True
    """
    given = os.environ.get(TOKEN, "")
    if given and len(given) < SHORTEST:
        raise InputError(f"{TOKEN} has {len(given)} characters; give at least {SHORTEST}, or unset it for a new one.")
    return given or secrets.token_urlsafe(32)


def address(host: str, port: int, token: str | None) -> str:
    """The address of the page.

    >>> address("::1", 8765, None), address("0.0.0.0", 80, "abc").endswith(":80/?token=abc")
    ('http://[::1]:8765/', True)
    """
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or an error that says what to do.

    >>> listen("no.such.host.invalid", 0)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: cannot listen on no.such.host.invalid ...
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(found[0], socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(found[4])
            made.listen(1_024)
        except BaseException:
            made.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot listen on {host} port {port} ({reason}); name another --port (0 picks a free one) or --host."
        ) from None
    return made
