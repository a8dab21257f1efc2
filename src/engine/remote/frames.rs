//! Frames of the protocol between controller and host helper: a JSON text and raw bytes, each with its length before it.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Most bytes of raw data: one piece of a saved file (4 MiB, `PART_BYTES` of the object storage).
pub(super) const MAX_DATA: usize = 4 << 20;
/// Most bytes of a request's text. The longest one describes a piece of a saved file in extents of one 4 KiB block.
pub(super) const MAX_REQUEST: usize = 256 << 10;
/// Most bytes of a reply's text: the ids of 100,000 machines.
pub(super) const MAX_REPLY: usize = 4 << 20;

/// Reads a frame whose text has at most `most` bytes.
///
/// # Errors
/// Those of read(2); `InvalidData` when a length is over its limit or the text is not a `T`; `UnexpectedEof`.
pub(super) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<(T, Vec<u8>)> {
    let text = length(stream.read_u32().await?, most, "text")?;
    let data = length(stream.read_u32().await?, MAX_DATA, "data")?;
    let text = bytes(stream, text).await?;
    let data = bytes(stream, data).await?;
    let message = serde_json::from_slice(&text).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("the text of a frame: {error}"))
    })?;
    Ok((message, data))
}

/// Writes a frame.
///
/// # Errors
/// Those of write(2); `InvalidInput` when the frame is over a limit.
pub(super) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
    data: &[u8],
    most: usize,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > most || data.len() > MAX_DATA {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame is longer than its limit"));
    }
    let (text_bytes, data_bytes) = (u32::try_from(text.len()), u32::try_from(data.len()));
    stream.write_u32(text_bytes.map_err(io::Error::other)?).await?;
    stream.write_u32(data_bytes.map_err(io::Error::other)?).await?;
    stream.write_all(&text).await?;
    stream.write_all(data).await?;
    stream.flush().await
}

fn length(announced: u32, most: usize, what: &str) -> io::Result<usize> {
    usize::try_from(announced).ok().filter(|length| *length <= most).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{announced} bytes of {what} are more than the limit of {most}"),
        )
    })
}

async fn bytes(stream: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
    let mut read = vec![0; length];
    stream.read_exact(&mut read).await?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_arrives_as_it_was_sent() {
        let mut sent = Vec::new();
        write(&mut sent, &("text", 7), b"data", MAX_REQUEST).await.unwrap();
        let (text, data): ((String, u8), _) = read(&mut sent.as_slice(), MAX_REQUEST).await.unwrap();
        assert_eq!((text, data.as_slice()), (("text".to_owned(), 7), &b"data"[..]));
    }

    #[tokio::test]
    async fn oversized_and_broken_frames_are_refused_before_they_are_read() {
        let frame = |text: u32, data: u32, rest: &[u8]| {
            [&text.to_be_bytes()[..], &data.to_be_bytes()[..], rest].concat()
        };
        let over = |limit: usize| u32::try_from(limit + 1).unwrap();
        for (sent, expected) in [
            (frame(over(MAX_REQUEST), 0, b""), io::ErrorKind::InvalidData),
            (frame(u32::MAX, u32::MAX, b""), io::ErrorKind::InvalidData),
            (frame(1, over(MAX_DATA), b"1"), io::ErrorKind::InvalidData),
            (frame(3, 0, b"{]}"), io::ErrorKind::InvalidData),
            (frame(4, 0, b"\"no\""), io::ErrorKind::InvalidData),
            (frame(9, 0, b"1"), io::ErrorKind::UnexpectedEof),
            (frame(1, 9, b"1234"), io::ErrorKind::UnexpectedEof),
            (vec![0, 0], io::ErrorKind::UnexpectedEof),
        ] {
            let error = read::<u8>(&mut sent.as_slice(), MAX_REQUEST).await.unwrap_err();
            assert_eq!(error.kind(), expected, "{error}");
        }
    }
}
