"""Upload to a computer with the unmodified tus client tuspy, with a resumption.

usage: tus_client.py UPLOADS_URL REMOTE_PATH   (the key is in HOTDESK_API_KEY)

Prints the SHA-256 of the content.
"""

import hashlib
import io
import os
import sys

from tusclient import client
from tusclient.exceptions import TusCommunicationError

MEBIBYTE = 1024 * 1024


def main() -> None:
    url, path = sys.argv[1:]
    content = bytes(os.urandom(MEBIBYTE)) * 40 + b"the end"
    tus = client.TusClient(url, headers={"Authorization": f"Bearer {os.environ['HOTDESK_API_KEY']}"})
    first = tus.uploader(
        file_stream=io.BytesIO(content), chunk_size=4 * MEBIBYTE, metadata={"path": path, "parents": "true"}
    )
    first.upload(stop_at=12 * MEBIBYTE)
    assert first.offset == 12 * MEBIBYTE, first.offset
    assert first.url.startswith(url + "/"), first.url

    # Another client knows the address only: it queries the offset and continues.
    second = tus.uploader(file_stream=io.BytesIO(content), chunk_size=8 * MEBIBYTE, url=first.url)
    assert second.offset == 12 * MEBIBYTE, second.offset
    second.upload()
    assert second.offset == len(content), second.offset

    try:
        tus.uploader(file_stream=io.BytesIO(b"x"), metadata={"path": path}).upload()
    except TusCommunicationError as refused:
        assert refused.status_code == 409, refused
    else:
        raise AssertionError("a file was replaced without a request")
    print(hashlib.sha256(content).hexdigest())


if __name__ == "__main__":
    main()
