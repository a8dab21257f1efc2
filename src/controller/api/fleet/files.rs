//! Files over HTTP (wire.md 9).

use crate::auth::Authenticated;
use axum::Json;
use axum::extract::multipart::Field;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request, State};
use futures_util::StreamExt;
use futures_util::stream;
use http_body_util::BodyStream;
use tokio::io::AsyncWriteExt;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::files::{MAX_EXPORT, MAX_FORM, Storing, UPLOAD_TIMEOUT, What, deliver, record};
use crate::origin::Origin;
use crate::storage::{self, Kind};
use crate::{App, Shared};
use hotdesk_base::clock::now_ms;
use hotdesk_base::ids::FileId;
use hotdesk_base::tally::Seat;
use hotdesk_domain::access::Caller;
use hotdesk_domain::error::Error;
use hotdesk_domain::filename::FileName;
use hotdesk_domain::limits::MAX_UPLOAD;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Query};
use hotdesk_store::computers::Computer;
use hotdesk_store::files::File;
use hotdesk_store::find::Filter;
use hotdesk_wire::action::Done;
use hotdesk_wire::file::{
    Delivery, Download, Export, Exported, FileList, FileQuery, FilesQuery, UploadForm, Uploaded,
};

/// Longest text field of the form: a UUID and air.
const MAX_FIELD: usize = 256;
/// Most parts of the form: the fields under all their names.
const MAX_PARTS: usize = 16;
/// Pushes at once: enough for a workspace full of computers without a burst of open blobs.
const PUSHES_AT_ONCE: usize = 8;
/// Files that one credential stores at once, each of which has bytes on the disk before its record counts: uploads are small ...
const UPLOADS_AT_ONCE: usize = 16;
/// ... and exports are up to a GB.
const EXPORTS_AT_ONCE: usize = 4;
/// As many credentials of an account may do their most at once: one that does leaves room to the others, who may be its clients.
const CREDENTIALS_AT_ONCE: usize = 4;
/// How long an export may take.
const EXPORT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);

/// The routes of files.
pub fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(upload))
        .routes(routes!(list))
        .routes(routes!(export))
        .routes(routes!(download))
        .routes(routes!(delete))
}

/// Stores a file in a workspace and puts it on the desktop of its computers: on those that run now, on the others
/// when they start. A file of that name on a desktop is never replaced. More than the plan of the workspace's owner gives: 403
/// `PLAN_LIMIT`.
#[utoipa::path(post, path = "/files/upload", tag = "files",
    request_body(content = UploadForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "Stored, and what became of it on each computer", body = Uploaded)))]
async fn upload(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    request: Request,
) -> Result<Json<Uploaded>> {
    let _storing = seats(&app, &caller, What::Upload)?;
    let id = FileId::random();
    let stored = tokio::time::timeout(UPLOAD_TIMEOUT, store_upload(&app, &caller, request, id)).await;
    let stored = stored.unwrap_or_else(|_| Err(Error::invalid("the upload did not arrive in time").into()));
    let (file, computer) = kept(&app, id, stored).await?;
    let deliveries = push(&app, &file, computer).await?;
    Ok(Json(Uploaded { file: record(&file), deliveries }))
}

/// Removes the blob, if any, of a file that was refused or broken off; a crash before leaves it to the sweep.
async fn kept<T>(app: &Shared, id: FileId, stored: Result<T>) -> Result<T> {
    if stored.is_err()
        && let Err(left) = app.storage.remove(Kind::File, id.0).await
    {
        tracing::warn!(file = %id, error = %left, "the bytes of a refused file were left");
    }
    stored
}

async fn store_upload(
    app: &Shared,
    caller: &Caller,
    request: Request,
    id: FileId,
) -> Result<(File, Option<Computer>)> {
    let limit = usize::try_from(MAX_FORM).map_err(Error::internal)?;
    let (parts, body) = request.into_parts();
    let limited = axum::body::Body::new(http_body_util::Limited::new(body, limit));
    let mut request = Request::from_parts(parts, limited);
    // Else axum's own limit of 2 MB holds.
    DefaultBodyLimit::disable().apply(&mut request);
    let mut form = Multipart::from_request(request, &())
        .await
        .map_err(|error| Error::invalid(format!("not a multipart form: {}", error.body_text())))?;
    let (mut workspace, mut computer, mut received) = (None, None, None);
    for _ in 0..MAX_PARTS {
        let Some(mut field) = form.next_field().await.map_err(broken)? else { break };
        match field.name().unwrap_or_default() {
            "file" if received.is_none() => received = Some(receive(app, &mut field, id).await?),
            "projectId" | "workspaceId" | "workspace_id" | "project_id" => {
                workspace = Some(text(&mut field).await?)
            }
            "desktopId" | "computerId" | "computer_id" | "desktop_id" => {
                computer = Some(text(&mut field).await?)
            }
            _ => {}
        }
    }
    let workspace =
        workspace.filter(|id| !id.is_empty()).ok_or_else(|| Error::invalid("Missing projectId"))?;
    let workspace = app.find_workspace(caller, &workspace).await?;
    let computer = match computer.filter(|id| !id.is_empty()) {
        None => None,
        Some(id) => Some(app.find_computer(caller, &id).await?),
    };
    if computer.as_ref().is_some_and(|computer| computer.workspace != workspace.id) {
        return Err(Error::invalid("the computer is not in this workspace").into());
    }
    let (name, content_type, size_bytes) = received.ok_or_else(|| Error::invalid("Missing file"))?;
    let file = File {
        id,
        workspace: workspace.id,
        computer: computer.as_ref().map(|computer| computer.id),
        filename: name.as_str().to_owned(),
        size_bytes,
        content_type,
        source: "upload".to_owned(),
        created_at: now_ms(),
    };
    app.store.add_file(&file, &app.plans).await?;
    Ok((file, computer))
}

/// Streams the form's file into its blob, counting; synced before it is acknowledged.
async fn receive(app: &Shared, field: &mut Field<'_>, id: FileId) -> Result<(FileName, String, u64)> {
    let name = FileName::parse(field.file_name().unwrap_or_default())?;
    let content_type = plain_type(field.content_type());
    app.storage.check_room()?;
    let path = app.storage.path(Kind::File, id.0);
    let failed = |step: &'static str| {
        let path = path.clone();
        move |error: std::io::Error| storage::failed(step, &path, &error)
    };
    let mut blob = tokio::fs::File::create_new(&path).await.map_err(failed("make"))?;
    let mut size = 0_u64;
    while let Some(chunk) = field.chunk().await.map_err(broken)? {
        size += chunk.len() as u64;
        if size > MAX_UPLOAD {
            return Err(Error::too_large("the file is larger than 10 MB").into());
        }
        blob.write_all(&chunk).await.map_err(failed("write"))?;
    }
    // Only a flush tells whether the last write failed.
    blob.flush().await.map_err(failed("write"))?;
    blob.sync_all().await.map_err(failed("sync"))?;
    Ok((name, content_type, size))
}

async fn text(field: &mut Field<'_>) -> Result<String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(broken)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_FIELD {
            return Err(Error::invalid("a form field is too long").into());
        }
    }
    Ok(String::from_utf8(bytes).map_err(|_| Error::invalid("a form field is not UTF-8"))?)
}

fn broken(error: axum::extract::multipart::MultipartError) -> Error {
    if error.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
        return Error::too_large("the file is larger than 10 MB");
    }
    Error::invalid(format!("the form cannot be read: {}", error.body_text()))
}

/// A media type that can go into a header again; anything else is bytes.
fn plain_type(given: Option<&str>) -> String {
    let fine = |text: &&str| {
        text.len() <= 100 && text.contains('/') && text.bytes().all(|b| (0x20..0x7f).contains(&b))
    };
    given.filter(fine).unwrap_or("application/octet-stream").to_owned()
}

async fn push(app: &Shared, file: &File, only: Option<Computer>) -> Result<Vec<Delivery>> {
    let computers = match only {
        Some(computer) => vec![computer],
        None => {
            let filter = Filter { workspace: Some(file.workspace), ..Filter::default() };
            let workspace = app.store.workspace(file.workspace).await?;
            let owner = workspace.ok_or_else(|| Error::not_found("Workspace not found"))?.account;
            app.store.computers(owner, &filter).await?.0
        }
    };
    let mut pushes = Vec::new();
    for computer in computers {
        if let Some(guest) = app.fleet.running_guest(computer.id) {
            let (app, file) = (app.clone(), file.clone());
            pushes.push(async move { deliver(&app.store, &app.storage, &file, &computer, &guest).await });
        }
    }
    Ok(stream::iter(pushes).buffer_unordered(PUSHES_AT_ONCE).collect().await)
}

/// The files of a workspace.
#[utoipa::path(get, path = "/files", tag = "files", params(FilesQuery),
    responses((status = 200, description = "Newest first", body = FileList)))]
async fn list(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Query(query): Query<FilesQuery>,
) -> Result<Json<FileList>> {
    let workspace = query.project_id.ok_or_else(|| Error::invalid("Missing projectId"))?;
    let workspace = app.find_workspace(&caller, &workspace).await?;
    let computer = match query.desktop_id {
        None => None,
        Some(id) => Some(app.find_computer(&caller, &id).await?.id),
    };
    let files = app.store.files(workspace.id, computer).await?;
    Ok(Json(FileList { files: files.iter().map(record).collect() }))
}

/// Copies a file of a computer into its workspace and gives a link to it.
#[utoipa::path(post, path = "/files/export", tag = "files", request_body = Export,
    responses((status = 200, description = "The stored copy and its link", body = Exported)))]
async fn export(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Body(wanted): Body<Export>,
) -> Result<Json<Exported>> {
    let computer = app.find_computer(&caller, &wanted.desktop_id).await?;
    let path = hotdesk_domain::filename::exportable(&wanted.path)?;
    let _storing = seats(&app, &caller, What::Export)?;
    let guest = app.fleet.guest(&computer).await?;
    let id = FileId::random();
    let fetched = tokio::time::timeout(EXPORT_TIMEOUT, fetch(&app, &computer, &guest, &path, id)).await;
    let late = || Error::timed_out("The computer did not send the file in time");
    let file = kept(&app, id, fetched.unwrap_or_else(|_| Err(late().into()))).await?;
    let link = app.storage.link(Kind::File, file.id.0, &file.filename);
    Ok(Json(Exported { success: true, file: record(&file), url: format!("{}{link}", origin.0) }))
}

async fn fetch(
    app: &Shared,
    computer: &Computer,
    guest: &hotdesk_guest::Guest,
    path: &str,
    id: FileId,
) -> Result<File> {
    let name = FileName::parse(path.rsplit('/').next().unwrap_or_default())?;
    app.storage.check_room()?;
    // What is over is not fetched at all, instead of being refused when it is there.
    let (quota, held) =
        (app.terms(computer.owner).await?.plan.quota, app.store.stored_files(computer.owner).await?);
    quota.admit_file(&held, 0)?;
    let (most, refused) = match quota.bytes_left(&held) {
        left if left < MAX_EXPORT => (left, quota.full(&held)),
        _ => (MAX_EXPORT, Error::too_large("the file is larger than 1 GB")),
    };
    let fetched = copy(guest, path, &app.storage.path(Kind::File, id.0), most).await?;
    let size_bytes = fetched.ok_or(refused)?;
    let file = File {
        id,
        workspace: computer.workspace,
        computer: Some(computer.id),
        filename: name.as_str().to_owned(),
        size_bytes,
        content_type: "application/octet-stream".to_owned(),
        source: "export".to_owned(),
        created_at: now_ms(),
    };
    app.store.add_file(&file, &app.plans).await?;
    Ok(file)
}

/// Copies a file of a guest into a blob; its bytes, or `None` when they are more than `most`.
async fn copy(
    guest: &hotdesk_guest::Guest,
    path: &str,
    blob_path: &std::path::Path,
    most: u64,
) -> Result<Option<u64>> {
    let failed = |step: &'static str| move |error: std::io::Error| storage::failed(step, blob_path, &error);
    let mut content = BodyStream::new(guest.open_file(path).await?);
    let mut blob = tokio::fs::File::create_new(blob_path).await.map_err(failed("make"))?;
    let mut size = 0_u64;
    while let Some(frame) = content.next().await {
        let frame =
            frame.map_err(|error| Error::unavailable("The computer broke off the file").context(error))?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len() as u64;
        if size > most {
            return Ok(None);
        }
        blob.write_all(&data).await.map_err(failed("write"))?;
    }
    // Only a flush tells whether the last write failed.
    blob.flush().await.map_err(failed("write"))?;
    blob.sync_all().await.map_err(failed("sync"))?;
    Ok(Some(size))
}

/// Counts one more file that is being stored.
fn seats(app: &App, caller: &Caller, what: What) -> Result<[Seat<Storing>; 2]> {
    let most = match what {
        What::Upload => UPLOADS_AT_ONCE,
        What::Export => EXPORTS_AT_ONCE,
    };
    let admit = |credential, most| {
        let admitted = app.storing.admit(Storing { what, account: caller.account, credential }, most);
        admitted.ok_or_else(|| Error::rate_limited(1))
    };
    Ok([admit(Some(caller.credential), most)?, admit(None, CREDENTIALS_AT_ONCE * most)?])
}

/// A link to a stored file, good for an hour.
#[utoipa::path(get, path = "/files/download", tag = "files", params(FileQuery),
    responses((status = 200, description = "The link", body = Download)))]
async fn download(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    origin: Origin,
    Query(query): Query<FileQuery>,
) -> Result<Json<Download>> {
    let file = find(&app, &caller, &query.id).await?;
    let link = app.storage.link(Kind::File, file.id.0, &file.filename);
    Ok(Json(Download { url: format!("{}{link}", origin.0) }))
}

/// Removes a stored file; copies on computers stay.
#[utoipa::path(delete, path = "/files/delete", tag = "files", params(FileQuery),
    responses((status = 200, description = "It is gone", body = Done)))]
async fn delete(
    State(app): State<Shared>,
    Authenticated(caller): Authenticated,
    Query(query): Query<FileQuery>,
) -> Result<Json<Done>> {
    let file = find(&app, &caller, &query.id).await?;
    app.store.remove_file(file.id).await?;
    app.storage.remove(Kind::File, file.id.0).await?;
    Ok(Json(Done { success: true }))
}

async fn find(app: &Shared, caller: &Caller, id: &str) -> Result<File> {
    let unknown = || Error::not_found("File not found");
    let id: FileId = id.parse().map_err(|_| unknown())?;
    let file = app.store.file(id).await?.ok_or_else(unknown)?;
    app.find_workspace(caller, &file.workspace.to_string()).await?;
    Ok(file)
}
