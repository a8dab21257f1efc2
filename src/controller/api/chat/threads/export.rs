//! Export of a chat thread as JSON lines, streamed.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::try_unfold;

use super::{parse, role, run, status, step_record};
use crate::AppState;
use crate::api::api_router::{ApiRouter, routes};
use crate::identity::auth::AuthenticatedCaller;
use crate::web::origin::Origin;
use hotdesk_base::ids::ThreadId;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;
use hotdesk_http::untrusted_content::forbid_caching;
use hotdesk_model::conversation::Message;
use hotdesk_store::fleet::threads::{StoredMessage, Thread};
use hotdesk_wire::chat::thread::{ThreadExport, ThreadExportLine, ThreadExportMessage};
use serde_json::Value;

/// Place of an export, which is read line by line: a line has at most a message of 1 MiB.
enum Position {
    Start(Box<Thread>),
    /// Number of the last message.
    Messages(i64),
    /// Number of the last step.
    Steps(i64),
}

/// Returns the route of exports.
pub(super) fn router<R: ApiRouter>() -> R {
    R::new().routes(routes!(export))
}

/// Exports a thread as JSON lines: the thread, its messages with all parts, its steps.
///
/// Each line has a `type`: `thread`, `message` or `step`. Viewers need the workspace's permission to read
/// files.
#[utoipa::path(get, path = "/chat/threads/{id}/export", tag = "threads", params(("id" = String, Path)),
    responses(
    (status = 200, description = "The lines", body = String, content_type = "application/x-ndjson")))]
pub async fn export(
    State(app): State<AppState>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    origin: Origin,
    Path(id): Path<String>,
) -> Result<Response> {
    let thread = app.threads.find_with_steps(&caller, &id).await?;
    let disposition = hotdesk_http::encode::attachment(&format!("{}.jsonl", thread.id));
    let disposition = HeaderValue::from_str(&disposition).map_err(Error::internal)?;
    let lines = Lines { app, origin, thread: thread.id };
    let start = Position::Start(Box::new(thread));
    let stream = try_unfold((lines, start), async |(lines, position)| {
        let line = lines.after(position).await.map_err(|error| std::io::Error::other(error.0))?;
        Ok::<_, std::io::Error>(line.map(|(line, position)| (line, (lines, position))))
    });
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    forbid_caching(headers);
    Ok(response)
}

/// Lines of one export.
struct Lines {
    app: AppState,
    origin: Origin,
    thread: ThreadId,
}

impl Lines {
    /// Returns the line behind a position, and its position; `None` at the end.
    async fn after(&self, position: Position) -> Result<Option<(Bytes, Position)>> {
        let after_step = match position {
            Position::Start(thread) => {
                return Ok(Some((
                    line(&ThreadExportLine::Thread(header_of(*thread)))?,
                    Position::Messages(0),
                )));
            }
            Position::Messages(last) => match self.app.threads.next_message(self.thread, last).await? {
                Some(stored) => {
                    let number = stored.number;
                    let message = ThreadExportLine::Message(message(stored)?);
                    return Ok(Some((line(&message)?, Position::Messages(number))));
                }
                None => 0,
            },
            Position::Steps(last) => last,
        };
        let Some(step) = self.app.threads.steps(self.thread, after_step, 1).await?.into_iter().next() else {
            return Ok(None);
        };
        let number = step.number;
        let step = ThreadExportLine::Step(step_record(&self.app.blobs, &self.origin, step)?);
        Ok(Some((line(&step)?, Position::Steps(number))))
    }
}

fn header_of(thread: Thread) -> ThreadExport {
    ThreadExport {
        id: thread.id.to_string(),
        computer_id: thread.computer.to_string(),
        status: status(&thread),
        run: thread.run.map(run),
        created_at: thread.created_at.iso8601(),
        updated_at: thread.updated_at.iso8601(),
        title: thread.title,
        failure: thread.failure,
    }
}

fn message(stored: StoredMessage) -> Result<ThreadExportMessage> {
    let message: Message = parse(&stored.content)?;
    let content: serde_json::Result<Vec<Value>> = message.content.iter().map(serde_json::to_value).collect();
    Ok(ThreadExportMessage {
        number: stored.number,
        created_at: stored.created_at.iso8601(),
        role: role(message.role),
        content: content.map_err(Error::internal)?,
    })
}

fn line(line: &ThreadExportLine) -> Result<Bytes> {
    let mut text = serde_json::to_vec(line).map_err(Error::internal)?;
    text.push(b'\n');
    Ok(text.into())
}
