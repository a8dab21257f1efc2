//! Timelines of the actions on screens over HTTP (docs/api/timeline.md).

use std::collections::VecDeque;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::try_unfold;
use uuid::Uuid;

use crate::AppState;
use crate::api::access::audit::parse_time;
use crate::api::api_router::{ApiRouter, routes};
use crate::api::fleet::snapshots::roll_back_to;
use crate::audit::timeline::{ActorNames, named};
use crate::identity::auth::AuthenticatedCaller;
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::snapshot::{EarlierSnapshot, nothing_to_go_back_to, snapshot_before};
use hotdesk_domain::error::Error;
use hotdesk_domain::identity::access::actor::ActorFilter;
use hotdesk_domain::identity::access::{Caller, Role};
use hotdesk_http::encode::attachment;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Path, Query};
use hotdesk_http::untrusted_content::{confine, forbid_caching};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::timeline::{TimelineEntry, TimelineFilter};
use hotdesk_store::identity::actor_names::NameReader;
use hotdesk_wire::desktop::action::timeline::{
    ScreenTimelineEntry, ScreenTimelineFilter, ScreenTimelinePage, ScreenTimelinePaging, TimelineExportLine,
    WentBack,
};

/// Default number of entries of a page.
const DEFAULT_PAGE: u32 = 50;
/// Most entries of a page: about 100 KB, and at most 3 MB.
const MAX_PAGE: u32 = 200;
/// Entries of an export that are in memory, without their pictures.
const EXPORT_PAGE: u32 = 50;

/// Returns the routes of timelines.
pub fn router<R: ApiRouter>() -> R {
    R::new()
        .routes(routes!(list_timeline))
        .routes(routes!(export_timeline))
        .routes(routes!(timeline_before))
        .routes(routes!(timeline_after))
        .routes(routes!(go_back))
}

/// Lists the actions on the screens of a computer, newest first: who did what, with what effect.
///
/// It also lists actions from before a stop or a rollback. Entries come from the computer, whose root can
/// invent them.
#[utoipa::path(get, path = "/computers/{id}/timeline", tag = "screens",
    params(("id" = String, Path), ScreenTimelineFilter, ScreenTimelinePaging),
    responses((status = 200, description = "A page of entries", body = ScreenTimelinePage)))]
async fn list_timeline(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(filter): Query<ScreenTimelineFilter>,
    Query(paging): Query<ScreenTimelinePaging>,
) -> Result<Response> {
    let mut response = Json(page(app, &caller, &id, &filter, paging).await?).into_response();
    forbid_caching(response.headers_mut());
    Ok(response)
}

/// Returns a page of a computer's timeline.
///
/// # Errors
/// `Invalid` for a bad filter or page; those of the look-up of a computer.
pub(crate) async fn page(
    app: AppState,
    caller: &Caller,
    id: &str,
    filter: &ScreenTimelineFilter,
    paging: ScreenTimelinePaging,
) -> Result<ScreenTimelinePage> {
    let limit = paging.limit.unwrap_or(DEFAULT_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_PAGE}")).into());
    }
    let cursor = paging.cursor.filter(|cursor| !cursor.is_empty());
    let wrong = || Error::invalid("cursor must be a next_cursor of this list");
    let before = cursor.map(|cursor| cursor.parse::<i64>().map_err(|_| wrong())).transpose()?;
    let filter = TimelineFilter { before, limit: limit + 1, ..parse_filter(filter)? };
    let timeline = ReadableTimeline::open(app, caller, id).await?;
    let mut found = timeline.app.fleet.timelines().list(timeline.computer.id, &filter).await?;
    let is_last = found.len() <= limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.iter().next_back().filter(|_| !is_last).map(|entry| entry.number.to_string());
    let entries = timeline.entries(found).await?.into_iter().map(|(_, entry)| entry).collect();
    Ok(ScreenTimelinePage { entries, next_cursor })
}

/// Exports the actions on the screens of a computer as JSON lines, oldest first, with their pictures.
#[utoipa::path(get, path = "/computers/{id}/timeline/export", tag = "screens",
    params(("id" = String, Path), ScreenTimelineFilter),
    responses((status = 200, description = "One `TimelineExportLine` per line", body = TimelineExportLine,
        content_type = "application/x-ndjson")))]
async fn export_timeline(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path(id): Path<String>,
    Query(filter): Query<ScreenTimelineFilter>,
) -> Result<Response> {
    let filter = parse_filter(&filter)?;
    let timeline = ReadableTimeline::open(app, &caller, &id).await?;
    let newest = TimelineFilter { limit: 1, ..TimelineFilter::default() };
    let newest = timeline.app.fleet.timelines().list(timeline.computer.id, &newest).await?;
    // Entries that come meanwhile are left out, so that the export ends.
    let before = newest.first().map_or(0, |entry| entry.number + 1);
    let filter = TimelineFilter { before: Some(before), oldest_first: true, limit: EXPORT_PAGE, ..filter };
    let name = attachment(&format!("timeline-{}.jsonl", timeline.computer.id));
    let disposition = HeaderValue::from_str(&name).map_err(Error::internal)?;
    let export = Export { timeline, filter, entries: VecDeque::new() };
    let stream = try_unfold(export, async |mut export| {
        let line = export.next_line().await.map_err(|error| std::io::Error::other(error.0))?;
        Ok::<_, std::io::Error>(line.map(|line| (line, export)))
    });
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    forbid_caching(headers);
    Ok(response)
}

/// Returns the small picture of the screen before an action.
#[utoipa::path(get, path = "/computers/{id}/timeline/{entry_id}/before", tag = "screens",
    params(("id" = String, Path), ("entry_id" = String, Path)),
    responses((status = 200, description = "JPEG of at most 160 by 90 pixels", body = String,
        content_type = "image/jpeg")))]
async fn timeline_before(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, entry)): Path<(String, String)>,
) -> Result<Response> {
    picture(&app, &caller, &id, &entry, |entry| entry.before).await
}

/// Returns the small picture of the screen after an action.
#[utoipa::path(get, path = "/computers/{id}/timeline/{entry_id}/after", tag = "screens",
    params(("id" = String, Path), ("entry_id" = String, Path)),
    responses((status = 200, description = "JPEG of at most 160 by 90 pixels", body = String,
        content_type = "image/jpeg")))]
async fn timeline_after(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, entry)): Path<(String, String)>,
) -> Result<Response> {
    picture(&app, &caller, &id, &entry, |entry| entry.after).await
}

/// Rolls a computer back to its newest snapshot with memory from before an action.
///
/// The rules are those of a rollback: everything later on the computer is lost, and its timeline stays. 409
/// `nothing_to_go_back_to` when there is no such snapshot.
#[utoipa::path(post, path = "/computers/{id}/timeline/{entry_id}/go_back", tag = "screens",
    params(("id" = String, Path), ("entry_id" = String, Path)),
    responses((status = 200, description = "The rollback is complete", body = WentBack),
        (status = 202, description = "The rollback is in progress; poll the computer", body = WentBack)))]
async fn go_back(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    Path((id, entry)): Path<(String, String)>,
) -> Result<(StatusCode, Json<WentBack>)> {
    let computer = app.directory.find_computer(&caller, &id).await?;
    let entry = app.fleet.timelines().find(computer.id, &entry).await?;
    let has_memory = app.fleet.engine().offers().capabilities(computer.isolation).memory_snapshot;
    let snapshot = snapshot_before(entry.at, &earlier_snapshots(&app, computer.id).await?)
        .ok_or_else(|| nothing_to_go_back_to(has_memory))?;
    let entries_between =
        app.store.count_timeline_entries(computer.id, snapshot.ready_at, entry.number).await?;
    let (code, status) = roll_back_to(&app, &computer, snapshot.id).await?;
    let answer = WentBack {
        success: true,
        status: status.name().to_owned(),
        snapshot_id: snapshot.id.to_string(),
        entries_between,
    };
    Ok((code, Json(answer)))
}

/// A computer's timeline, for a caller who may read it.
struct ReadableTimeline {
    app: AppState,
    computer: Computer,
    reader: NameReader,
    snapshots: Vec<EarlierSnapshot>,
}

impl ReadableTimeline {
    /// Checks access, and fetches the newest entries from a running computer.
    async fn open(app: AppState, caller: &Caller, id: &str) -> Result<Self> {
        let (computer, role) = app.directory.find_computer_as(caller, id).await?;
        // An agent whose machine is frozen does not answer.
        if let Some(guest) = app.fleet.running_guest(computer.id)
            && !app.fleet.engine().is_frozen(computer.id)
        {
            app.fleet.timelines().fetch_to_read(computer.id, &guest).await;
        }
        let snapshots = earlier_snapshots(&app, computer.id).await?;
        let reader = name_reader(caller, &computer, role);
        Ok(Self { app, computer, reader, snapshots })
    }

    /// Converts stored entries, and keeps each with its stored one.
    async fn entries(&self, found: Vec<TimelineEntry>) -> Result<Vec<(TimelineEntry, ScreenTimelineEntry)>> {
        let names = self.app.fleet.timelines().names(&found, &self.reader).await?;
        let converted = found.into_iter().map(|stored| {
            let entry = entry_record(&stored, &names, &self.snapshots)?;
            Ok((stored, entry))
        });
        converted.collect()
    }

    /// A picture in base64.
    async fn encoded(&self, picture: Option<Uuid>) -> Result<Option<String>> {
        let bytes = self.app.fleet.timelines().picture(picture).await?;
        Ok(bytes.map(|bytes| STANDARD.encode(bytes)))
    }
}

/// An export that is being streamed.
struct Export {
    timeline: ReadableTimeline,
    filter: TimelineFilter,
    /// Entries of the current page.
    entries: VecDeque<(TimelineEntry, ScreenTimelineEntry)>,
}

impl Export {
    /// Returns the next line; `None` at the end.
    async fn next_line(&mut self) -> Result<Option<Bytes>> {
        if self.entries.is_empty() {
            let (app, computer) = (&self.timeline.app, self.timeline.computer.id);
            let found = app.fleet.timelines().list(computer, &self.filter).await?;
            self.filter.after = found.iter().next_back().map(|entry| entry.number).or(self.filter.after);
            self.entries = self.timeline.entries(found).await?.into();
        }
        let Some((stored, entry)) = self.entries.pop_front() else { return Ok(None) };
        let line = TimelineExportLine {
            entry,
            before_jpeg: self.timeline.encoded(stored.before).await?,
            after_jpeg: self.timeline.encoded(stored.after).await?,
        };
        let mut text = serde_json::to_vec(&line).map_err(Error::internal)?;
        text.push(b'\n');
        Ok(Some(text.into()))
    }
}

fn name_reader(caller: &Caller, computer: &Computer, role: Role) -> NameReader {
    NameReader {
        account: caller.account,
        role,
        computer: computer.id,
        workspace: computer.workspace,
        owner: computer.owner,
    }
}

fn parse_filter(filter: &ScreenTimelineFilter) -> Result<TimelineFilter> {
    let non_empty = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
    Ok(TimelineFilter {
        screen: non_empty(&filter.screen),
        by: non_empty(&filter.by).map(|by| ActorFilter::parse(&by)).transpose()?,
        from: parse_time("from", &filter.from)?,
        to: parse_time("to", &filter.to)?,
        ..TimelineFilter::default()
    })
}

async fn earlier_snapshots(app: &AppState, computer: ComputerId) -> Result<Vec<EarlierSnapshot>> {
    let snapshots = app.store.snapshots(computer).await?;
    Ok(snapshots.iter().map(|snapshot| snapshot.earlier()).collect())
}

fn entry_record(
    stored: &TimelineEntry,
    names: &ActorNames,
    snapshots: &[EarlierSnapshot],
) -> Result<ScreenTimelineEntry> {
    Ok(ScreenTimelineEntry {
        id: stored.number.to_string(),
        at: stored.at.iso8601(),
        by: stored.by.map(|by| named(by, names)),
        record: serde_json::from_str(&stored.record).map_err(Error::internal)?,
        before: stored.before.is_some(),
        after: stored.after.is_some(),
        lost_before: u64::try_from(stored.lost_before).ok().filter(|lost| *lost > 0),
        snapshot_id: snapshot_before(stored.at, snapshots).map(|snapshot| snapshot.id.to_string()),
    })
}

async fn picture(
    app: &AppState,
    caller: &Caller,
    id: &str,
    entry: &str,
    side: impl FnOnce(&TimelineEntry) -> Option<Uuid>,
) -> Result<Response> {
    let computer = app.directory.find_computer(caller, id).await?;
    let entry = app.fleet.timelines().find(computer.id, entry).await?;
    let bytes = app.fleet.timelines().picture(side(&entry)).await?;
    let bytes = bytes.ok_or_else(|| Error::not_found("The entry has no such picture"))?;
    let mut response = Body::from(bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/jpeg"));
    confine(headers);
    forbid_caching(headers);
    Ok(response)
}
