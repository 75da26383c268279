"""Which proxy leads to which server: the tables against which the plugin and kubectl are held."""

from __future__ import annotations

PROXY = "http://proxy.example:3128"


OTHER = "http://other.example:3128"


API = "https://api.nowhere.example:6443"


HERE = "https://0.0.0.0:6443"
"""This machine, by an address that is none of its loopback."""


VARIABLES: list[tuple[str, dict[str, str], str]] = [
    (API, {"HTTPS_PROXY": PROXY}, PROXY),
    (API, {"https_proxy": PROXY}, PROXY),
    (API, {"HTTPS_PROXY": PROXY.removeprefix("http://")}, PROXY),
    (API, {"https_proxy": OTHER, "HTTPS_PROXY": PROXY}, PROXY),
    (API, {"https_proxy": PROXY, "HTTPS_PROXY": ""}, PROXY),
    (API, {"https_proxy": "", "HTTPS_PROXY": PROXY}, PROXY),
    (API, {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, ""),
    (API, {}, ""),
    ("http://api.nowhere.example:6443", {"HTTP_PROXY": PROXY}, PROXY),
    ("http://api.nowhere.example:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://127.1.2.3:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
    ("https://x.localhost:6443", {"HTTPS_PROXY": PROXY}, PROXY),
    (HERE, {"HTTPS_PROXY": PROXY}, PROXY),
]
"""Which variable is read: server, environment, the proxy that is used."""


NO_PROXY: list[tuple[str, str, bool]] = [
    (API, "", True),
    (API, "*", False),
    (API, "x, *", False),
    (API, "*.*", True),
    (API, "x, api.nowhere.example", False),
    (API, "API.Nowhere.EXAMPLE", False),
    ("https://API.nowhere.example:6443", "api.nowhere.example", False),
    (API, "nowhere.example", False),
    (API, ".nowhere.example", False),
    (API, "*.nowhere.example", False),
    (API, ".api.nowhere.example", True),
    (API, "*.api.nowhere.example", True),
    (API, "where.example", True),
    (API, "*where.example", True),
    (API, "api.nowhere.example:6443", False),
    (API, "api.nowhere.example:443", True),
    (API, ".nowhere.example:6443", False),
    ("https://api.nowhere.example", "api.nowhere.example:443", False),
    (API, ",, ,x", True),
    (API, "api.nowhere.example x", True),
    (API, ":6443", True),
    (API, "0.0.0.0/0", True),
    ("https://bücher.nowhere.example:6443", "BÜCHER.nowhere.example", False),
    (HERE, "0.0.0.0", False),
    (HERE, "0.0.0.0:6443", False),
    (HERE, "0.0.0.0:443", True),
    (HERE, "x,0.0.0.0/8", False),
    (HERE, "0.1.2.3/8", False),
    (HERE, "0.0.0.0/33, x/8,0.0.0.0/8", False),
    (HERE, "0.0.0.0/255.0.0.0", True),
    (HERE, "10.0.0.0/8", True),
    (HERE, "0.0", True),
    (HERE, ".0.0", True),
    (HERE, "0.0.0.*", True),
    ("https://[::]:6443", "::", False),
    ("https://[::]:6443", "[::]:6443", False),
    ("https://[::]:6443", "[::]:443", True),
    ("https://[::]:6443", "0.0.0.0/0,fd00::/8", True),
    ("https://[::]:6443", "::/8", False),
]
"""What is exempt: server, NO_PROXY, whether a proxy is used."""
