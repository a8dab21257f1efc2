//! Tools for files of a computer.

use std::time::Duration;

use axum::body::{self, Body, Bytes};
use axum::extract::State;
use axum::http::{Method, Request, header};
use serde::Serialize;

use super::{Call, MAX_TEXT, Tool, ToolEffect, tool};
use crate::api::desktop::guest_files::folders;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::extract::{Path, Query};
use hotdesk_wire::files::guest_file::{FileWritten, FolderListQuery, Listing, PathQuery, PutQuery};
use hotdesk_wire::tool::files::{ListFolder, ReadText, TextRead, WriteText};

/// Entries in one result: 200 are about 40 KB.
const PAGE: u32 = 200;
/// Time for 64 KiB from or to a computer, whose disk may be busy.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool("list_files", ToolEffect::Read, "Lists a folder of a computer, sorted by name.", list_files),
        tool("read_file", ToolEffect::Read, "Reads a text file of a computer, 64 KiB at a time.", read_file),
        tool(
            "write_file",
            ToolEffect::Discard,
            "Writes a text file on a computer, completely or not at all.",
            write_file,
        ),
    ]
}

async fn list_files(call: Call, arguments: ListFolder) -> Result<ToolResult<Listing>> {
    let path = arguments.path.unwrap_or_else(|| "Desktop".to_owned());
    let query = FolderListQuery { path, limit: Some(PAGE), after: arguments.after };
    let caller = AuthenticatedCaller(call.caller);
    let listing = folders::list(State(call.app), caller, Path(arguments.computer_id), Query(query)).await?;
    Ok(ToolResult::of(listing.0))
}

async fn read_file(call: Call, arguments: ReadText) -> Result<ToolResult<TextRead>> {
    let ReadText { computer_id, path, offset } = arguments;
    let offset = offset.unwrap_or(0);
    let query = PathQuery { path };
    let caller = AuthenticatedCaller(call.caller.clone());
    let stat =
        folders::stat(State(call.app.clone()), caller, Path(computer_id.clone()), Query(query.clone()));
    let size = stat.await?.0.entry.size;
    if offset >= size {
        // A range behind the last byte would be refused, and an empty file has no other.
        return Ok(ToolResult::of(TextRead { text: String::new(), size, next_offset: None }));
    }
    let last = offset.saturating_add(MAX_TEXT as u64 - 1);
    let range = format!("bytes={offset}-{last}").parse().map_err(Error::internal)?;
    let mut request = request(Method::GET, &query, Body::empty())?;
    request.headers_mut().insert(header::RANGE, range);
    let bytes = exchange(&call, &computer_id, request).await?;
    let end = offset.saturating_add(bytes.len() as u64);
    // A character that is cut at the end of a page belongs to the next one.
    let complete = if end < size { complete_characters(&bytes) } else { bytes.len() };
    let next = offset.saturating_add(complete as u64);
    Ok(ToolResult::of(TextRead {
        text: String::from_utf8_lossy(&bytes[..complete]).into_owned(),
        size,
        next_offset: (complete > 0 && next < size).then_some(next),
    }))
}

async fn write_file(call: Call, arguments: WriteText) -> Result<ToolResult<FileWritten>> {
    let WriteText { computer_id, path, text, overwrite } = arguments;
    let query = PutQuery { path, overwrite, parents: true, mode: None };
    let mut request = request(Method::PUT, &query, Body::empty())?;
    request.headers_mut().insert(header::CONTENT_LENGTH, text.len().into());
    *request.body_mut() = Body::from(text);
    let bytes = exchange(&call, &computer_id, request).await?;
    let written: FileWritten = serde_json::from_slice(&bytes).map_err(Error::internal)?;
    Ok(ToolResult::of(written))
}

fn request(method: Method, query: &impl Serialize, body: Body) -> Result<Request<Body>> {
    let query = serde_urlencoded::to_string(query).map_err(Error::internal)?;
    let uri = format!("http://agent/files/content?{query}");
    Request::builder().method(method).uri(uri).body(body).map_err(Error::internal)
}

/// Sends a request to the computer's agent and returns the body of its answer.
///
/// # Errors
/// The agent's refusal; `TimedOut` after [`TIMEOUT`]; `Internal` for an answer of more than [`MAX_TEXT`].
async fn exchange(call: &Call, computer_id: &str, request: Request<Body>) -> Result<Bytes> {
    let computer = call.app.directory.find_computer(&call.caller, computer_id).await?;
    let guest = call.app.directory.guest_for(request.method(), &computer).await?;
    let answer = guest.forward(request, TIMEOUT).await?;
    if !answer.status().is_success() {
        return Err(guest.refusal(answer).await);
    }
    let reading = body::to_bytes(Body::new(answer.into_body()), MAX_TEXT);
    let read = tokio::time::timeout(TIMEOUT, reading).await;
    let read = read.map_err(|_| Error::timed_out("The computer did not send the whole file in time"))?;
    read.map_err(Error::internal)
}

/// Length of the complete UTF-8 characters at the start of `bytes`. Bytes that are no text count as they are.
fn complete_characters(bytes: &[u8]) -> usize {
    match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_between_characters() {
        assert_eq!(complete_characters("aé".as_bytes()), 3);
        assert_eq!(complete_characters(&"aé".as_bytes()[..2]), 1);
        assert_eq!(complete_characters(b"a\xff"), 2, "bytes that are no text are not held back");
    }
}
