//! Workspace files over HTTP (docs/api/files.md).

use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use axum::Json;
use axum::extract::multipart::Field;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request, State};
use futures_util::StreamExt;
use futures_util::stream;
use http_body_util::BodyStream;
use tokio::io::AsyncWriteExt;

use crate::data_dir::blobs::BlobKind;
use crate::data_dir::disk;
use crate::data_dir::files::{
    MAX_EXPORT, MAX_FORM, StorageSlot, TransferKind, UPLOAD_TIMEOUT, deliver, record,
};
use crate::web::origin::Origin;
use crate::{App, AppState};
use hotdesk_base::clock;
use hotdesk_base::ids::FileId;
use hotdesk_base::keyed_semaphore::Permit;
use hotdesk_domain::error::{Error, Kind};
use hotdesk_domain::filename::FileName;
use hotdesk_domain::identity::access::Caller;
use hotdesk_domain::limits::MAX_UPLOAD;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Json as Body, Query, check_declared};
use hotdesk_store::files::File;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::find::ComputerFilter;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::files::workspace_file::{
    Delivery, Download, Export, ExportResult, FileList, FileQuery, FilesQuery, UploadForm, UploadResult,
};

/// Longest text field of the form in bytes: a UUID and some margin.
const MAX_FIELD: usize = 256;
/// Most parts of the form: the fields under all their names.
const MAX_PARTS: usize = 16;
/// Concurrent pushes: enough for a workspace full of computers without many open blobs.
const PUSHES_AT_ONCE: usize = 8;
/// Concurrent uploads of one credential. Their bytes are on the disk before they count for the quota; uploads
/// are small.
const UPLOADS_AT_ONCE: usize = 16;
/// Concurrent exports of one credential, which are up to a GB.
const EXPORTS_AT_ONCE: usize = 4;
/// How many credentials of an account may use their full concurrency. One that does leaves capacity to the
/// others, which may belong to its clients.
const CREDENTIALS_AT_ONCE: usize = 4;
/// Longest export.
const EXPORT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);

/// Returns the routes of files.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(upload))
        .routes(routes!(list))
        .routes(routes!(export))
        .routes(routes!(download))
        .routes(routes!(delete))
}

/// Stores a file in a workspace and delivers it to the desktops of its running computers.
///
/// With `desktopId` it goes to that computer alone, at its next start if it does not run. An existing file on
/// a desktop is never replaced. More than the plan of the workspace's owner allows: 403 `PLAN_LIMIT`.
#[utoipa::path(post, path = "/files/upload", tag = "files",
    request_body(content = UploadForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "The stored file, and its delivery to each computer",
        body = UploadResult)))]
pub(crate) async fn upload(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    request: Request,
) -> Result<Json<UploadResult>> {
    let _storing = permits(&app, &caller, TransferKind::Upload)?;
    let id = FileId::random();
    let stored = tokio::time::timeout(UPLOAD_TIMEOUT, store_upload(&app, &caller, request, id)).await;
    let stored =
        stored.unwrap_or_else(|_| Err(Error::slow_request("the upload did not arrive in time").into()));
    let (file, computer) = remove_if_failed(&app, id, stored).await?;
    let deliveries = push(&app, &file, computer).await?;
    Ok(Json(UploadResult { file: record(&file), deliveries }))
}

/// Removes the blob of a file that was refused or cut off. After a crash the sweep removes it.
async fn remove_if_failed<T>(app: &AppState, id: FileId, stored: Result<T>) -> Result<T> {
    if stored.is_err()
        && let Err(left) = app.blobs.remove(BlobKind::File, id.0).await
    {
        tracing::warn!(
            file = %id,
            error = format_args!("{left:#}"),
            "could not remove the blob of a refused file; the next sweep retries"
        );
    }
    stored
}

async fn store_upload(
    app: &AppState,
    caller: &Caller,
    request: Request,
    id: FileId,
) -> Result<(File, Option<Computer>)> {
    let limit = usize::try_from(MAX_FORM).map_err(Error::internal)?;
    let (parts, body) = request.into_parts();
    check_declared(&body, limit)?;
    let limited = axum::body::Body::new(http_body_util::Limited::new(body, limit));
    let mut request = Request::from_parts(parts, limited);
    // Otherwise axum's own limit of 2 MB applies.
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
    let workspace = app.directory.find_workspace(caller, &workspace).await?;
    let computer = match computer.filter(|id| !id.is_empty()) {
        None => None,
        Some(id) => Some(app.directory.find_computer(caller, &id).await?),
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
        created_at: clock::now(),
    };
    app.store.add_file(&file, &app.plans).await?;
    Ok((file, computer))
}

/// Streams the form's file into its blob and syncs it before it is acknowledged.
async fn receive(app: &AppState, field: &mut Field<'_>, id: FileId) -> Result<(FileName, String, u64)> {
    let name = FileName::parse(field.file_name().unwrap_or_default())?;
    let content_type = plain_type(field.content_type());
    app.blobs.check_free_space(0)?;
    let path = app.blobs.path(BlobKind::File, id.0);
    let failed = |step: &'static str| {
        let path = path.clone();
        move |error: std::io::Error| disk::failed(step, &path, &error)
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
    // Only a flush reports whether the last write failed.
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
    Error::invalid(format!("the form cannot be parsed: {}", error.body_text()))
}

/// Returns a media type that is valid in a header; any other becomes `application/octet-stream`.
fn plain_type(given: Option<&str>) -> String {
    let fine = |text: &&str| {
        text.len() <= 100 && text.contains('/') && text.bytes().all(|b| (0x20..0x7f).contains(&b))
    };
    given.filter(fine).unwrap_or("application/octet-stream").to_owned()
}

async fn push(app: &AppState, file: &File, only: Option<Computer>) -> Result<Vec<Delivery>> {
    let computers = match only {
        Some(computer) => vec![computer],
        None => {
            let filter = ComputerFilter { workspace: Some(file.workspace), ..ComputerFilter::default() };
            let workspace = app.store.workspace(file.workspace).await?;
            let owner = workspace.ok_or_else(|| Error::not_found("Workspace not found"))?.account;
            app.store.computers(owner, &filter).await?.0
        }
    };
    let mut pushes = Vec::new();
    for computer in computers {
        if let Some(guest) = app.fleet.running_guest(computer.id) {
            let (app, file) = (app.clone(), file.clone());
            pushes.push(async move { deliver(&app.store, &app.blobs, &file, &computer, &guest).await });
        }
    }
    Ok(stream::iter(pushes).buffer_unordered(PUSHES_AT_ONCE).collect().await)
}

/// Lists the files of a workspace.
#[utoipa::path(get, path = "/files", tag = "files", params(FilesQuery),
    responses((status = 200, description = "The files, newest first", body = FileList)))]
pub(crate) async fn list(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<FilesQuery>,
) -> Result<Json<FileList>> {
    let workspace = query.project_id.ok_or_else(|| Error::invalid("Missing projectId"))?;
    let workspace = app.directory.find_workspace(&caller, &workspace).await?;
    let computer = match query.desktop_id {
        None => None,
        Some(id) => Some(app.directory.find_computer(&caller, &id).await?.id),
    };
    let files = app.store.files(workspace.id, computer).await?;
    Ok(Json(FileList { files: files.iter().map(record).collect() }))
}

/// Exports a file of a computer into its workspace and returns a link to it.
///
/// 400 when the computer does not run, 403 outside of its home folder.
#[utoipa::path(post, path = "/files/export", tag = "files", request_body = Export,
    responses((status = 200, description = "The stored copy and its link", body = ExportResult)))]
pub(crate) async fn export(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Body(wanted): Body<Export>,
) -> Result<Json<ExportResult>> {
    let computer = app.directory.find_computer(&caller, &wanted.desktop_id).await?;
    let path = hotdesk_domain::filename::exportable(&wanted.path)?;
    let _storing = permits(&app, &caller, TransferKind::Export)?;
    // A computer that does not run is a bad request here, as for other services' clients (docs/api/files.md).
    let guest = app.fleet.guest(&computer).await.map_err(|error| {
        let kind = if error.kind == Kind::Conflict { Kind::Invalid } else { error.kind };
        Error { kind, ..error }
    })?;
    let id = FileId::random();
    let fetched = tokio::time::timeout(EXPORT_TIMEOUT, fetch(&app, &computer, &guest, &path, id)).await;
    let late = || Error::timed_out("The computer did not send the file in time");
    let file = remove_if_failed(&app, id, fetched.unwrap_or_else(|_| Err(late().into()))).await?;
    let link = app.blobs.link(BlobKind::File, file.id.0, &file.filename);
    Ok(Json(ExportResult { success: true, file: record(&file), url: format!("{}{link}", origin.0) }))
}

async fn fetch(
    app: &AppState,
    computer: &Computer,
    guest: &hotdesk_guest::Guest,
    path: &str,
    id: FileId,
) -> Result<File> {
    let name = FileName::parse(path.rsplit('/').next().unwrap_or_default())?;
    app.blobs.check_free_space(0)?;
    // A file beyond the quota is not fetched at all, instead of being refused afterwards.
    let (quota, held) =
        (app.billing.terms(computer.owner).await?.plan.quota, app.store.stored_files(computer.owner).await?);
    quota.admit_file(&held, 0)?;
    let (most, refused) = match quota.bytes_left(&held) {
        left if left < MAX_EXPORT => (left, quota.full(&held)),
        _ => (MAX_EXPORT, Error::too_large("the file is larger than 1 GB")),
    };
    let fetched = copy(guest, path, &app.blobs.path(BlobKind::File, id.0), most).await?;
    let size_bytes = fetched.ok_or(refused)?;
    let file = File {
        id,
        workspace: computer.workspace,
        computer: Some(computer.id),
        filename: name.as_str().to_owned(),
        size_bytes,
        content_type: "application/octet-stream".to_owned(),
        source: "export".to_owned(),
        created_at: clock::now(),
    };
    app.store.add_file(&file, &app.plans).await?;
    Ok(file)
}

/// Copies a guest's file into a blob. Returns its size in bytes, or `None` when it is larger than `most`.
async fn copy(
    guest: &hotdesk_guest::Guest,
    path: &str,
    blob_path: &std::path::Path,
    most: u64,
) -> Result<Option<u64>> {
    let failed = |step: &'static str| move |error: std::io::Error| disk::failed(step, blob_path, &error);
    let mut content = BodyStream::new(guest.open_file(path).await?);
    let mut blob = tokio::fs::File::create_new(blob_path).await.map_err(failed("make"))?;
    let mut size = 0_u64;
    while let Some(frame) = content.next().await {
        let frame = frame
            .map_err(|error| Error::unavailable("The computer did not send the whole file").context(error))?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len() as u64;
        if size > most {
            return Ok(None);
        }
        blob.write_all(&data).await.map_err(failed("write"))?;
    }
    // Only a flush reports whether the last write failed.
    blob.flush().await.map_err(failed("write"))?;
    blob.sync_all().await.map_err(failed("sync"))?;
    Ok(Some(size))
}

/// Takes the permits for one more file that is being stored.
fn permits(app: &App, caller: &Caller, what: TransferKind) -> Result<[Permit<StorageSlot>; 2]> {
    let most = match what {
        TransferKind::Upload => UPLOADS_AT_ONCE,
        TransferKind::Export => EXPORTS_AT_ONCE,
    };
    let admit = |credential, most| {
        let admitted =
            app.storing.try_acquire(StorageSlot { what, account: caller.account, credential }, most);
        admitted.ok_or_else(|| Error::rate_limited(1))
    };
    Ok([admit(Some(caller.credential), most)?, admit(None, CREDENTIALS_AT_ONCE * most)?])
}

/// Returns a link to a stored file, valid for an hour.
#[utoipa::path(get, path = "/files/download", tag = "files", params(FileQuery),
    responses((status = 200, description = "The link", body = Download)))]
pub(crate) async fn download(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Query(query): Query<FileQuery>,
) -> Result<Json<Download>> {
    let file = find(&app, &caller, &query.id).await?;
    let link = app.blobs.link(BlobKind::File, file.id.0, &file.filename);
    Ok(Json(Download { url: format!("{}{link}", origin.0) }))
}

/// Deletes a stored file. Copies on computers stay.
#[utoipa::path(delete, path = "/files/delete", tag = "files", params(FileQuery),
    responses((status = 200, description = "The file was deleted", body = Acknowledgement)))]
async fn delete(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Query(query): Query<FileQuery>,
) -> Result<Json<Acknowledgement>> {
    let file = find(&app, &caller, &query.id).await?;
    app.store.remove_file(file.id).await?;
    app.blobs.remove(BlobKind::File, file.id.0).await?;
    Ok(Json(Acknowledgement { success: true }))
}

async fn find(app: &AppState, caller: &Caller, id: &str) -> Result<File> {
    let unknown = || Error::not_found("File not found");
    let id: FileId = id.parse().map_err(|_| unknown())?;
    let file = app.store.file(id).await?.ok_or_else(unknown)?;
    app.directory.find_workspace(caller, &file.workspace.to_string()).await?;
    Ok(file)
}
