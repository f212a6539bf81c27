"""One HTTP exchange with a deadline: no redirect is followed, no answer is read without end."""

import dataclasses
import email.utils
import http.client
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

__all__ = ["Reply", "Unreachable", "exchange", "retry_after"]

_LARGEST = 16 * 2**20  # bytes of a reply; an answer of 100,000 tokens has about 500,000


class Unreachable(Exception):
    """No reply came; ``passing`` says whether another attempt may help."""

    def __init__(self, reason: str, *, passing: bool):
        super().__init__(reason)
        self.passing = passing


@dataclasses.dataclass(frozen=True)
class Reply:
    """What a server answered; names of headers are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def exchange(
    method: str, address: str, headers: Mapping[str, str], body: bytes | None, timeout: float
) -> Reply:
    """Sends one request and reads the whole reply.

    Args:
        method: ``"GET"`` or ``"POST"``.
        address: http or https.
        headers: sent as they are, to this host only: redirects come back as replies.
        body: sent after the headers.
        timeout: seconds for all of it.

    Raises:
        Unreachable: no connection, a broken one, no end within ``timeout``, or a reply above
            16 MiB.
    """
    deadline = time.monotonic() + timeout
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    try:
        connection.connect()
        sock = connection.sock
        connection.request(method, parts.path or "/", body, dict(headers))
        response = connection.getresponse()
        content = bytearray()
        while not response.isclosed():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            # A server that sends a byte now and then would never run into the socket's time-out.
            sock.settimeout(left)
            part = response.read1(65_536)
            if not part:
                break
            content += part
            if len(content) > _LARGEST:
                raise Unreachable("the reply has more than 16 MiB", passing=False)
        if response.length:
            raise http.client.IncompleteRead(bytes(content), response.length)
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, bytes(content))
    except TimeoutError as error:
        raise Unreachable(f"no reply within {timeout:g} s", passing=True) from error
    except ssl.SSLCertVerificationError as error:
        reason = f"its certificate is not trusted ({error.verify_message})"
        raise Unreachable(reason, passing=False) from error
    except http.client.IncompleteRead as error:
        raise Unreachable("the connection broke within the reply", passing=True) from error
    except http.client.RemoteDisconnected as error:
        raise Unreachable("the connection was closed without a reply", passing=True) from error
    except http.client.HTTPException as error:
        reason = f"the reply is no HTTP ({type(error).__name__})"
        raise Unreachable(reason, passing=False) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Unreachable(reason[:1].lower() + reason[1:], passing=True) from error
    finally:
        connection.close()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, from a number or a date; None if it asks for none.

    >>> retry_after({"retry-after": "2"}), retry_after({"retry-after": "soon"}), retry_after({})
    (2.0, None, None)
    """
    text = headers.get("retry-after", "").strip()
    if text.replace(".", "", 1).isdecimal():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
