//! Sources of triggers: what they look at, and how often.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use sysinfo::System;
use tokio::sync::broadcast;

use super::{Reporter, fields};
use crate::exec::services::logs::LogReader;
use crate::exec::services::metrics::read_metric;
use crate::exec::services::script::guest_path;
use crate::exec::services::{Parts, probe};
use crate::files::blocking;
use hotdesk_base::clock;
use hotdesk_domain::computer::template::timing;
use hotdesk_domain::computer::template::trigger::{DEFAULT_HTTP_INTERVAL, MIN_POLL, ThresholdWatch};
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_domain::error::Error;
use hotdesk_wire::template::Choice as _;
use hotdesk_wire::template::trigger::{FileChange, HttpMethod, LogFormat, MetricComparison, TriggerSource};

/// Longest sleep until a time of a schedule: the clock jumps when the computer wakes.
const MAX_CRON_SLEEP: Duration = Duration::from_secs(5);
/// A time of a schedule that is further back than this has been missed, as while the computer slept.
const MAX_CRON_DELAY: Duration = Duration::from_secs(60);
/// Most entries of a folder that are compared.
const MAX_ENTRIES: usize = 10_000;
/// Longest time of a request of the source `http`.
const HTTP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two readings of a metric.
const METRIC_INTERVAL: Duration = Duration::from_secs(2);

/// A source with what it remembers between failures.
pub(super) struct WatchedSource {
    source: TriggerSource,
    /// Since before the source was begun, so that no event of the computer is missed.
    computer: broadcast::Receiver<Map<String, Value>>,
}

/// The type of a source.
pub(super) fn name(source: &TriggerSource) -> &'static str {
    match source {
        TriggerSource::Cron { .. } => "cron",
        TriggerSource::File { .. } => "file",
        TriggerSource::Http { .. } => "http",
        TriggerSource::Process { .. } => "process",
        TriggerSource::Metric { .. } => "metric",
        TriggerSource::Log { .. } => "log",
        TriggerSource::Event { .. } => "event",
        TriggerSource::Desktop { .. } => "desktop",
    }
}

impl WatchedSource {
    pub(super) fn new(parts: &Arc<Parts>, source: &TriggerSource) -> Self {
        Self { source: source.clone(), computer: parts.computer_events.subscribe() }
    }

    /// Watches until a failure, and returns its reason.
    pub(super) async fn watch(&mut self, reporter: &Reporter) -> String {
        let interval = |text: &Option<String>, default: Duration| {
            let time = text.as_deref().and_then(timing::milliseconds).map(Duration::from_millis);
            time.unwrap_or(default).max(MIN_POLL)
        };
        match &self.source {
            TriggerSource::Cron { schedule } => watch_schedule(schedule, reporter).await,
            TriggerSource::File { path, events } => watch_file(&guest_path(path), events, reporter).await,
            TriggerSource::Http { url, method, expect_code, interval: every } => {
                let every = interval(every, DEFAULT_HTTP_INTERVAL);
                watch_url(url, *method, *expect_code, every, reporter).await
            }
            TriggerSource::Process { process } => watch_process(process, reporter).await,
            TriggerSource::Metric { metric, op, value, duration } => {
                let least = duration.as_deref().and_then(timing::milliseconds).map(Duration::from_millis);
                watch_metric(metric, *op, *value, least.unwrap_or_default(), reporter).await
            }
            TriggerSource::Log { service, pattern, parse } => {
                watch_log(service, pattern, *parse, reporter).await
            }
            TriggerSource::Event { event } => watch_computer(event, &mut self.computer, reporter).await,
            TriggerSource::Desktop { event } => watch_desktop(event, reporter).await,
        }
    }
}

async fn watch_schedule(schedule: &str, reporter: &Reporter) -> String {
    loop {
        let Some(next) = timing::next_time(schedule, clock::now()) else {
            reporter.next_at(None);
            return format!("the schedule {schedule} has no next time in this computer");
        };
        reporter.watching();
        reporter.next_at(Some(next.iso8601()));
        let late = loop {
            let now = clock::now();
            if let Some(late) = now.since(next) {
                break late;
            }
            tokio::time::sleep(next.since(now).unwrap_or_default().min(MAX_CRON_SLEEP)).await;
        };
        if late <= MAX_CRON_DELAY {
            reporter.event("cron", fields([("scheduled_at", json!(next.iso8601()))]));
        }
    }
}

/// What is compared of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    is_folder: bool,
}

/// The file, or the entries of the folder, by their paths. Of a folder within, only its existence counts.
fn look(path: &Path) -> io::Result<BTreeMap<PathBuf, FileStamp>> {
    let stamp = |facts: &fs::Metadata| {
        let is_folder = facts.is_dir();
        let content = |value: i64| if is_folder { 0 } else { value };
        FileStamp {
            inode: facts.ino(),
            length: if is_folder { 0 } else { facts.len() },
            modified: (content(facts.mtime()), content(facts.mtime_nsec())),
            is_folder,
        }
    };
    let facts = match fs::metadata(path) {
        Ok(facts) => facts,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    if !facts.is_dir() {
        return Ok(BTreeMap::from([(path.to_owned(), stamp(&facts))]));
    }
    let mut entries = BTreeMap::new();
    for entry in fs::read_dir(path)?.take(MAX_ENTRIES) {
        let entry = entry?;
        // An entry that was removed meanwhile is left out.
        if let Ok(facts) = fs::symlink_metadata(entry.path()) {
            entries.insert(entry.path(), stamp(&facts));
        }
    }
    Ok(entries)
}

/// The changes between two looks, in the order of the paths.
fn changes(
    before: &BTreeMap<PathBuf, FileStamp>,
    after: &BTreeMap<PathBuf, FileStamp>,
) -> Vec<(PathBuf, FileChange)> {
    let mut all = Vec::new();
    for (path, stamp) in after {
        match before.get(path) {
            None => all.push((path.clone(), FileChange::Create)),
            Some(earlier) if earlier != stamp => all.push((path.clone(), FileChange::Modify)),
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    all.extend(gone.map(|path| (path.clone(), FileChange::Delete)));
    all
}

async fn watch_file(path: &Path, events: &[FileChange], reporter: &Reporter) -> String {
    let read = || {
        let path = path.to_owned();
        blocking(move || {
            look(&path).map_err(|error| Error::failed(format!("{} cannot be read: {error}", path.display())))
        })
    };
    let mut before = match read().await {
        Ok(entries) => entries,
        Err(error) => return error.message,
    };
    reporter.watching();
    loop {
        tokio::time::sleep(MIN_POLL).await;
        let after = match read().await {
            Ok(entries) => entries,
            Err(error) => return error.message,
        };
        for (path, change) in changes(&before, &after) {
            if events.contains(&change) {
                let path = path.to_string_lossy();
                reporter.event("file", fields([("path", json!(path)), ("change", json!(change.word()))]));
            }
        }
        before = after;
    }
}

async fn watch_url(
    url: &str,
    method: HttpMethod,
    expected: u64,
    every: Duration,
    reporter: &Reporter,
) -> String {
    let client = match probe::client() {
        Ok(client) => client,
        Err(error) => return format!("requests cannot be sent: {error}"),
    };
    let Ok(method) = reqwest::Method::from_bytes(method.word().as_bytes()) else {
        return format!("{} is no method", method.word());
    };
    reporter.watching();
    loop {
        let request = client.request(method.clone(), url).timeout(HTTP_TIMEOUT).send();
        let (status, error) = match request.await {
            Ok(answer) => (Some(u64::from(answer.status().as_u16())), None),
            Err(error) => (None, Some(probe::causes(&error))),
        };
        if status != Some(expected) {
            let found = [("url", json!(url)), ("status", json!(status)), ("error", json!(error))];
            reporter.event("http", fields(found));
        }
        tokio::time::sleep(every).await;
    }
}

async fn watch_process(process: &str, reporter: &Reporter) -> String {
    let look = || {
        let name = process.to_owned();
        tokio::task::spawn_blocking(move || probe::is_running(&name))
    };
    let mut before = match look().await {
        Ok(runs) => runs,
        Err(error) => return format!("the processes cannot be listed: {error}"),
    };
    reporter.watching();
    loop {
        tokio::time::sleep(MIN_POLL).await;
        let runs = match look().await {
            Ok(runs) => runs,
            Err(error) => return format!("the processes cannot be listed: {error}"),
        };
        if runs != before {
            let state = if runs { "started" } else { "ended" };
            reporter.event("process", fields([("process", json!(process)), ("state", json!(state))]));
        }
        before = runs;
    }
}

fn compare(op: MetricComparison, left: f64, right: f64) -> bool {
    match op {
        MetricComparison::Greater => left > right,
        MetricComparison::GreaterOrEqual => left >= right,
        MetricComparison::Less => left < right,
        MetricComparison::LessOrEqual => left <= right,
        MetricComparison::Equal => (left - right).abs() < f64::EPSILON,
        MetricComparison::NotEqual => (left - right).abs() >= f64::EPSILON,
    }
}

async fn watch_metric(
    metric: &str,
    op: MetricComparison,
    value: f64,
    least: Duration,
    reporter: &Reporter,
) -> String {
    let mut system = match System::new() {
        Ok(system) => system,
        Err(error) => return format!("the metric {metric} cannot be read: {error}"),
    };
    let (mut crossing, began) = (ThresholdWatch::default(), Instant::now());
    // The first reading of the processors has nothing to compare with.
    let mut is_first = true;
    loop {
        let name = metric.to_owned();
        let read = tokio::task::spawn_blocking(move || {
            let reading = read_metric(&mut system, &name);
            (system, reading)
        });
        let reading = match read.await {
            Ok((same, reading)) => {
                system = same;
                reading
            }
            Err(error) => return format!("the metric {metric} cannot be read: {error}"),
        };
        let Some(reading) = reading else { return format!("the metric {metric} cannot be read") };
        reporter.watching();
        if !is_first && crossing.record(compare(op, reading, value), began.elapsed(), least) {
            let rounded = (reading * 10.0).round() / 10.0;
            reporter.event("metric", fields([("metric", json!(metric)), ("value", json!(rounded))]));
        }
        is_first = false;
        tokio::time::sleep(METRIC_INTERVAL).await;
    }
}

/// The event of a line, if it has the text. A line is a JSON object with `json`; others are left out.
fn line_fields(line: &str, pattern: &str, format: LogFormat) -> Option<Map<String, Value>> {
    // The supervisor's logger writes the time before each line (s6-log, directive T).
    let line = match line.split_once("  ") {
        Some((time, rest))
            if time.len() == "2026-11-25 22:00:00.123456789".len() && time.starts_with("20") =>
        {
            rest
        }
        _ => line,
    };
    if !line.contains(pattern) {
        return None;
    }
    match format {
        LogFormat::Text => Some(fields([("line", json!(line))])),
        LogFormat::Json => {
            let mut found: Map<String, Value> = serde_json::from_str(line).ok()?;
            found.insert("line".to_owned(), json!(line));
            Some(found)
        }
    }
}

async fn watch_log(service: &str, pattern: &str, format: LogFormat, reporter: &Reporter) -> String {
    let programs = match reporter.parts.programs().await {
        Ok(programs) => programs,
        Err(error) => return error.message,
    };
    let Some(program) = programs.services.iter().find(|program| program.name == service) else {
        return format!("there is no service {service}");
    };
    let mut log = LogReader::at_end(PathBuf::from(super::super::log_file(program)));
    reporter.watching();
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let lines = log.lines();
            (log, lines)
        });
        let lines = match read.await {
            Ok((same, lines)) => {
                log = same;
                lines
            }
            Err(error) => return format!("the log of {service} cannot be read: {error}"),
        };
        let lines = match lines {
            Ok(lines) => lines,
            Err(error) => return format!("the log of {service} cannot be read: {error}"),
        };
        for line in lines {
            if let Some(mut found) = line_fields(&line, pattern, format) {
                found.insert("service".to_owned(), json!(service));
                reporter.event("log", found);
            }
        }
        tokio::time::sleep(MIN_POLL).await;
    }
}

async fn watch_computer(
    event: &str,
    events: &mut broadcast::Receiver<Map<String, Value>>,
    reporter: &Reporter,
) -> String {
    reporter.watching();
    loop {
        match events.recv().await {
            Ok(found) if found.get("event").is_some_and(|name| name == event) => {
                reporter.event("event", found)
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return "the agent stops".to_owned(),
        }
    }
}

async fn watch_desktop(event: &str, reporter: &Reporter) -> String {
    let Some(kind) = EventKind::parse(event) else {
        return format!("there is no event {event} of the desktop");
    };
    let listener = reporter.parts.feed.listen();
    listener.add(kind.into());
    reporter.watching();
    loop {
        let message = listener.next().await.message();
        let Ok(Value::Object(mut message)) = serde_json::from_str(&message) else { continue };
        let Some(Value::Object(mut found)) = message.remove("event") else { continue };
        // Its own fields are beside its name: `{{ event.title }}`.
        let data = found.remove("data");
        let mut all = fields([("event", json!(event))]);
        if let Some(Value::Object(data)) = data {
            all.extend(data);
        }
        reporter.event("desktop", all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_folder_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let step = |before: &mut BTreeMap<PathBuf, FileStamp>, target: &Path| {
            let after = look(target).unwrap();
            let found = changes(before, &after);
            *before = after;
            let found = found.into_iter().map(|(path, change)| {
                (path.file_name().unwrap().to_string_lossy().into_owned(), change.word())
            });
            found.collect::<Vec<_>>()
        };
        let mut seen = look(folder.path()).unwrap();
        fs::write(path("a"), "1").unwrap();
        fs::create_dir(path("d")).unwrap();
        assert_eq!(step(&mut seen, folder.path()), [("a".into(), "create"), ("d".into(), "create")]);
        fs::write(path("a"), "22").unwrap();
        fs::write(path("d/inner"), "").unwrap();
        assert_eq!(step(&mut seen, folder.path()), [("a".into(), "modify")]);
        fs::remove_file(path("a")).unwrap();
        assert_eq!(step(&mut seen, folder.path()), [("a".into(), "delete")]);
        assert_eq!(step(&mut seen, folder.path()), []);
        // A file that does not exist yet.
        let mut seen = look(&path("later")).unwrap();
        assert_eq!(step(&mut seen, &path("later")), []);
        fs::write(path("later"), "").unwrap();
        assert_eq!(step(&mut seen, &path("later")), [("later".into(), "create")]);
    }

    #[test]
    fn lines_with_the_text_become_events() {
        let found = |line: &str, format| line_fields(line, "error", format).map(Value::Object);
        assert_eq!(found("an error", LogFormat::Text), Some(json!({"line": "an error"})));
        assert_eq!(
            found("2026-11-25 22:00:00.123456789  an error", LogFormat::Text),
            Some(json!({"line": "an error"}))
        );
        assert_eq!(found("fine", LogFormat::Text), None);
        let line = r#"{"level":"error","code":7}"#;
        assert_eq!(found(line, LogFormat::Json), Some(json!({"level": "error", "code": 7, "line": line})));
        assert_eq!(found("error", LogFormat::Json), None);
        assert_eq!(found("[\"error\"]", LogFormat::Json), None);
    }

    #[test]
    fn metrics_are_compared() {
        for (op, expected) in [
            (MetricComparison::Greater, false),
            (MetricComparison::GreaterOrEqual, true),
            (MetricComparison::Less, false),
            (MetricComparison::LessOrEqual, true),
            (MetricComparison::Equal, true),
            (MetricComparison::NotEqual, false),
        ] {
            assert_eq!(compare(op, 5.0, 5.0), expected, "{op:?}");
        }
    }
}
