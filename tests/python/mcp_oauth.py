"""OAuth authorization of the Python `mcp` client, with a simulated browser for the person.

usage: mcp_oauth.py BASE COOKIE WORKSPACE [CLIENT_URL]

The client itself receives the challenge, finds the metadata, registers (or identifies itself by CLIENT_URL), opens the consent
page, redeems the code, and refreshes its token.
"""

import asyncio
import re
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

BASE, COOKIE, WORKSPACE = sys.argv[1:4]
CLIENT_URL = sys.argv[4] if len(sys.argv) > 4 else None
REDIRECT = "http://127.0.0.1:53210/callback"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "round trip", "version": "1"},
    },
}
HEADERS = {"Accept": "application/json, text/event-stream"}


class Memory:
    """Token storage of the client."""

    def __init__(self):
        self.tokens = None
        self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Person:
    """A person with a signed-in browser who approves every request."""

    def __init__(self):
        self.prompts = 0
        self.redirect = None

    async def open(self, url):
        self.prompts += 1
        async with httpx2.AsyncClient(headers={"Cookie": COOKIE}, timeout=60) as browser:
            page = await browser.get(url)
            assert page.status_code == 200, page.text
            csrf = re.search(r'name="csrf" value="([^"]+)"', page.text).group(1)
            form = {"csrf": csrf, "decision": "allow", "workspace": WORKSPACE}
            answer = await browser.post(url, data=form)
            assert answer.status_code == 303, answer.text
            self.redirect = answer.headers["location"]

    async def callback(self):
        assert self.redirect.startswith(REDIRECT + "?"), self.redirect
        parameters = {name: values[0] for name, values in parse_qs(urlsplit(self.redirect).query).items()}
        return AuthorizationCodeResult(code=parameters["code"], state=parameters["state"], iss=parameters["iss"])


async def main():
    memory, person = Memory(), Person()
    metadata = OAuthClientMetadata(client_name="Round trip", redirect_uris=[REDIRECT])
    provider = OAuthClientProvider(
        f"{BASE}/mcp", metadata, memory, person.open, person.callback, client_metadata_url=CLIENT_URL
    )
    async with httpx2.AsyncClient(auth=provider, headers=HEADERS, timeout=60) as client:
        first = await client.post(f"{BASE}/mcp", json=HELLO)
        assert first.status_code == 200, first.text
        assert person.prompts == 1
        assert memory.client.client_id == CLIENT_URL if CLIENT_URL else memory.client.client_secret is None
        assert (memory.tokens.token_type, memory.tokens.scope) == ("Bearer", "mcp:tools")
        before = memory.tokens
        # Make the client believe that its token has expired: it refreshes the token without a prompt.
        provider.context.token_expiry_time = 1
        second = await client.post(f"{BASE}/mcp", json=HELLO)
        assert second.status_code == 200, second.text
        assert person.prompts == 1
        assert memory.tokens.access_token != before.access_token
        assert memory.tokens.refresh_token != before.refresh_token
    # The replaced token is invalid.
    async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as client:
        old = {"Authorization": f"Bearer {before.access_token}"}
        refused = await client.post(f"{BASE}/mcp", json=HELLO, headers=old)
        assert refused.status_code == 401, refused.text
    print("the whole trip")


asyncio.run(main())
