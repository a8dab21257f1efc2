"""Mail server on a free loopback port. Prints its port, and stores each mail as a JSON file in a folder until its standard
input ends.

Usage: smtp_server.py FOLDER [--busy N] [--tls CERTIFICATE KEY USER PASSWORD]

--busy: the first N mails are refused with a temporary failure.
--tls: mail is accepted only after STARTTLS and a sign-in.
"""

import asyncio
import email
import email.policy
import json
import pathlib
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

folder = pathlib.Path(sys.argv[1])
options = sys.argv[2:]
busy = int(options[1]) if options[:1] == ["--busy"] else 0
tls = options[1:] if options[:1] == ["--tls"] else []


class Handler:
    def __init__(self):
        self.refused = 0
        self.stored = 0

    async def handle_DATA(self, server, session, envelope):
        if self.refused < busy:
            self.refused += 1
            return "451 4.3.0 try again later"
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        mail = {
            "to": envelope.rcpt_tos,
            "from": envelope.mail_from,
            "subject": message["subject"],
            "text": message.get_content(),
            "refused": self.refused,
            "encrypted": session.ssl is not None,
        }
        draft = folder / "draft"
        draft.write_text(json.dumps(mail))
        draft.rename(folder / f"{self.stored}.json")
        self.stored += 1
        return "250 stored"


def authenticate(server, session, envelope, mechanism, data):
    known = data.login == tls[2].encode() and data.password == tls[3].encode()
    return AuthResult(success=known)


async def main():
    handler = Handler()
    settings = {"hostname": "mail.example.org"}
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls[0], tls[1])
        settings |= {"tls_context": context, "require_starttls": True, "auth_required": True, "authenticator": authenticate}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(handler, loop=loop, **settings), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main())
