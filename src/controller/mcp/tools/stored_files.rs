//! Tools for the files of a workspace.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Call, Tool, ToolEffect, tool};
use crate::api::fleet::files;
use crate::identity::auth::AuthenticatedCaller;
use crate::mcp::answer::ToolResult;
use hotdesk_base::ids::FileId;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::filename::FileName;
use hotdesk_http::extract::{Json as JsonBody, Query};
use hotdesk_wire::files::workspace_file::{
    Download, Export, ExportResult, FileQuery, FilesQuery, UploadResult,
};
use hotdesk_wire::tool::files::{ExportFrom, ListStoredFiles, OneStoredFile, StoredFilePage, UploadContent};

/// Files in one result: 200 are about 50 KB.
const PAGE: usize = 200;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "list_workspace_files",
            ToolEffect::Read,
            "Lists the stored files of a workspace: uploads and exports, newest first.",
            list_workspace_files,
        ),
        tool(
            "upload_file",
            ToolEffect::Create,
            "Stores a file in a workspace and puts it on the desktops of its running computers, or of one \
             computer. A file that is there already is not replaced.",
            upload_file,
        ),
        tool(
            "export_file",
            ToolEffect::Create,
            "Copies a file of a computer into its workspace and returns a link, valid for an hour.",
            export_file,
        ),
        tool(
            "download_file",
            ToolEffect::Read,
            "Returns a link to a stored file of a workspace, valid for an hour.",
            download_file,
        ),
    ]
}

async fn list_workspace_files(call: Call, arguments: ListStoredFiles) -> Result<ToolResult<StoredFilePage>> {
    let ListStoredFiles { workspace_id, computer_id, offset } = arguments;
    let query = FilesQuery { project_id: Some(call.workspace_id(workspace_id)?), desktop_id: computer_id };
    let Json(list) = files::list(State(call.app), AuthenticatedCaller(call.caller), Query(query)).await?;
    let (offset, total) = (offset.unwrap_or(0) as usize, list.files.len());
    let files: Vec<_> = list.files.into_iter().skip(offset).take(PAGE).collect();
    let next = offset.saturating_add(files.len());
    let next_offset = (next < total && !files.is_empty()).then_some(next as u64);
    Ok(ToolResult::of(StoredFilePage { files, total: total as u64, next_offset }))
}

async fn upload_file(call: Call, arguments: UploadContent) -> Result<ToolResult<UploadResult>> {
    let UploadContent { workspace_id, computer_id, filename, text, base64 } = arguments;
    let workspace = call.workspace_id(workspace_id)?;
    let content = match (text, base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(base64)) => {
            let decoded = STANDARD.decode(base64);
            decoded.map_err(|error| Error::invalid(format!("base64 cannot be decoded: {error}")))?
        }
        _ => return Err(Error::invalid("exactly one of text and base64 is required")),
    };
    let request = form(&workspace, computer_id.as_deref(), &filename, &content)?;
    let Json(stored) = files::upload(State(call.app), AuthenticatedCaller(call.caller), request).await?;
    Ok(ToolResult::of(stored))
}

/// The form of `POST /files/upload` (RFC 7578).
///
/// # Errors
/// `Invalid` for a name or an id that would need quoting.
fn form(workspace: &str, computer: Option<&str>, filename: &str, content: &[u8]) -> Result<Request<Body>> {
    let filename = FileName::parse(filename)?;
    if filename.as_str().contains('"') {
        return Err(Error::invalid("filename holds a quotation mark"));
    }
    // Random, so that no content has it.
    let boundary = format!("hotdesk-{}", FileId::random());
    let mut body = Vec::with_capacity(content.len() + 1024);
    for (name, value) in [("workspace_id", Some(workspace)), ("computer_id", computer)] {
        let Some(value) = value else { continue };
        if value.chars().any(char::is_control) {
            return Err(Error::invalid(format!("{name} holds a control character")));
        }
        let part =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    let name = filename.as_str();
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(content);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    let kind = format!("multipart/form-data; boundary={boundary}");
    let request = Request::post("/files/upload").header(header::CONTENT_TYPE, kind);
    request.body(Body::from(body)).map_err(Error::internal)
}

async fn export_file(call: Call, arguments: ExportFrom) -> Result<ToolResult<ExportResult>> {
    let ExportFrom { computer_id, path } = arguments;
    let wanted = JsonBody(Export { desktop_id: computer_id, path });
    let Json(stored) =
        files::export(State(call.app), AuthenticatedCaller(call.caller), call.origin, wanted).await?;
    Ok(ToolResult::of(stored))
}

async fn download_file(call: Call, OneStoredFile { file_id }: OneStoredFile) -> Result<ToolResult<Download>> {
    let query = Query(FileQuery { id: file_id });
    let caller = AuthenticatedCaller(call.caller);
    let Json(link) = files::download(State(call.app), caller, call.origin, query).await?;
    Ok(ToolResult::of(link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_field() {
        for name in ["a\"b", "a\r\nb", "a/b", ""] {
            assert!(form("w", None, name, b"x").is_err(), "{name:?}");
        }
        assert!(form("w\r\n", None, "a", b"x").is_err());
        assert!(form("w", Some("c"), "r\u{e9}sum\u{e9} 1.txt", b"x").is_ok());
    }
}
