"""Checks of every request (method, Host header, origin, token), and the security headers of every answer."""

from __future__ import annotations

import hmac
import http.cookies
import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
LONGEST_TOKEN = 200


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own loopback.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_of(header: str) -> str:
    """The name in a Host header, without the port.

    >>> host_of("localhost:8765"), host_of("[::1]:8765"), host_of("Lab.Example")
    ('localhost', '::1', 'lab.example')
    """
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


class Guard:
    """The outermost layer of the application.

    Parameters
    ----------
    app
        The application that it guards.
    host : str
        The address that the server listens on.
    token : str, optional
        The token that visitors need; None on loopback.
    names : collection of str
        Further host names of the server, such as that of a proxy.
    port : int
        The port of the server; it is in the name of the cookie, because cookies ignore ports.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        token: str | None = None,
        names: Collection[str] = (),
        port: int = 0,
    ) -> None:
        self.app, self._token = app, token
        self.local = is_loopback(host)
        own = () if self.local else (socket.gethostname(), host)
        self.names = frozenset(name.lower() for name in (*LOOPBACK, *own, *names))
        self.cookie = f"enlist-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on to the application."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def bound(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self.refusal(scope)
        await (refused or self.app)(scope, receive, bound)

    def refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that is not allowed; None for one that is."""
        headers = Headers(scope=scope)
        if scope["method"] not in METHODS:
            return PlainTextResponse("only GET is allowed: the page is read-only.", 405, {"Allow": "GET, HEAD"})
        if not self.known(headers.getlist("host")):
            return PlainTextResponse("this server is not known by that name; see --host and --name.", 421)
        site, mode = headers.get("sec-fetch-site", ""), headers.get("sec-fetch-mode", "")
        if site in ("cross-site", "same-site") and mode != "navigate":
            return PlainTextResponse("other sites may link to this page, but not read it.", 403)
        return None if self._token is None else self._admitted(scope, headers)

    def known(self, hosts: list[str]) -> bool:
        """Whether the Host header names this server: one known name, or an address, which no other site can claim."""
        if len(hosts) != 1:
            return False
        host = host_of(hosts[0])
        if host in self.names:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback if self.local else True

    def _admitted(self, scope: Scope, headers: Headers) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and self._right(given[-1]):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            path = "/" + scope["path"].lstrip("/\\")  # "//other" would lead to another site
            answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            answer.set_cookie(self.cookie, given[-1], httponly=True, samesite="lax", path="/")
            return answer
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._right(sent.strip()):
            return None
        jar = http.cookies.SimpleCookie()
        try:
            jar.load(headers.get("cookie", ""))
        except http.cookies.CookieError:
            jar.clear()
        if self.cookie in jar and self._right(jar[self.cookie].value):
            return None
        words = "this page needs a token: open the address that `enlist ui` printed when it started."
        return PlainTextResponse(words, 401, {"WWW-Authenticate": 'Bearer realm="enlist"'})

    def _right(self, given: str) -> bool:
        expected = (self._token or "").encode()
        sent = given[:LONGEST_TOKEN].encode(errors="replace")
        return bool(expected) and hmac.compare_digest(sent, expected)
