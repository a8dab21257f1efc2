"""Recording and live stream of a computer by the Python library `hotdesk`, which is installed as its wheel.

usage: hotdesk_recordings.py VIDEO.mp4 RTMP_URL      HOTDESK_URL and HOTDESK_API_KEY: a service whose computers have ffmpeg

The last line of its output is `done`.
"""

import sys
import time

from hotdesk import Computer


def main() -> None:
    video, server = sys.argv[1:]
    with Computer.create(name="recorded") as computer:
        streaming, recordings = computer.streaming, computer.recordings
        assert streaming.start("studio", url=server, key="studio").status == "streaming"
        assert streaming.status().status == "streaming"
        recording = recordings.start(fps=5, max_seconds=120)
        computer.click(200, 150)
        while recordings.get(recording).seconds < 2:
            time.sleep(0.2)
        assert recordings.stop(recording).status == "stopped"
        assert str(recordings.download(recording, video)) == video
        assert [entry["action"] for entry in recordings.timeline(recording)] == ["click"]
        assert [it.id for it in recordings.list()] == [recording.id]
        recordings.delete(recording)
        assert recordings.list() == []
        streaming.stop()
        assert streaming.status().status == "idle"
        assert [it.name for it in computer.client.connections.list()] == ["studio"]
        computer.client.connections.delete("studio")
    print("done")


if __name__ == "__main__":
    main()
