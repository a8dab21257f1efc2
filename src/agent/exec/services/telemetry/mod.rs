//! Figures and lines of logs that the computer sends to an OpenTelemetry collector (OTLP/HTTP with JSON).
//!
//! ```text
//! figures (every minute) --\
//!                           bounded queue --> one request after another, repeated while the collector is not ready
//! files (every 2 s) -------/   full: files are not read, and what comes meanwhile is dropped and counted
//! ```

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sysinfo::System;

use super::logs::LogReader;
use super::script::guest_path;
use super::{Parts, metrics};
pub(super) use exporter::Exporter;
use hotdesk_domain::computer::template::trigger::METRICS;
use hotdesk_wire::programs::service::TelemetryProgram;
use otlp::{Figure, LogLine};

mod exporter;
mod otlp;

/// Time between two sets of figures.
const METRICS_INTERVAL: Duration = Duration::from_secs(60);
/// Time between the first two readings of the processors: the first one has nothing to compare with.
const FIRST_READING: Duration = Duration::from_secs(1);
/// Time between two looks at the files.
const LOGS_INTERVAL: Duration = Duration::from_secs(2);
/// Longest line in bytes; a longer one is cut.
const MAX_LINE: usize = 16 * 1024;
/// Most lines of one request: with the longest lines it has 4 MiB, as much as collectors take by default.
const MAX_LINES: usize = 256;

/// Begins to send, once. It ends with the agent.
pub(super) fn begin(parts: &Arc<Parts>, program: Option<&TelemetryProgram>) {
    let Some(program) = program else { return };
    let exporter = Arc::clone(parts.exporter.get_or_init(|| Arc::new(Exporter::new(&program.endpoint))));
    let spawn = |name: &'static str, work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let stop = parts.tasks.stopping();
        let _task = parts.tasks.spawn(name, async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    };
    let sender = Arc::clone(&exporter);
    spawn("telemetry of the template", Box::pin(async move { sender.run().await }));
    if program.metrics {
        spawn("metrics of the template", Box::pin(send_metrics(Arc::clone(&exporter))));
    }
    if !program.logs.is_empty() {
        // From here on, also when the programs of this boot write at once.
        let readers = program.logs.iter().map(|path| LogReader::at_end(guest_path(path))).collect();
        spawn("logs of the template", Box::pin(send_logs(exporter, readers)));
    }
}

async fn send_metrics(exporter: Arc<Exporter>) {
    let mut system = match System::new() {
        Ok(system) => system,
        Err(error) => {
            tracing::error!(%error, "the figures of the computer cannot be read");
            return;
        }
    };
    system.refresh_cpu_usage();
    let mut pause = FIRST_READING;
    loop {
        tokio::time::sleep(pause).await;
        pause = METRICS_INTERVAL;
        let read = hotdesk_base::tasks::spawn_blocking(move || {
            let figures = figures(&mut system);
            (system, figures)
        });
        let mut figures = match read.await {
            Ok((same, figures)) => {
                system = same;
                figures
            }
            Err(error) => {
                tracing::error!(%error, "the figures of the computer cannot be read");
                return;
            }
        };
        figures.push(Figure {
            name: "hotdesk.telemetry.dropped",
            unit: "{record}",
            value: exporter.dropped() as f64,
        });
        let records = figures.len() as u64;
        exporter.add("metrics", records, &otlp::metrics(&figures));
    }
}

/// The figures of this moment. Blocks.
fn figures(system: &mut System) -> Vec<Figure> {
    let names = ["system.cpu.utilization", "system.memory.utilization", "system.filesystem.utilization"];
    let shares = METRICS.iter().zip(names).filter_map(|(metric, name)| {
        let percent = metrics::read_metric(system, metric)?;
        Some(Figure { name, unit: "1", value: percent / 100.0 })
    });
    let mut figures: Vec<Figure> = shares.collect();
    figures.push(Figure { name: "system.memory.usage", unit: "By", value: system.used_memory() as f64 });
    if let Some((used, _)) = metrics::disk_use() {
        figures.push(Figure { name: "system.filesystem.usage", unit: "By", value: used as f64 });
    }
    figures
}

/// One file after another, so that only what was read of one is in memory beside the queue. While that is full the lines stay in
/// their files.
async fn send_logs(exporter: Arc<Exporter>, mut readers: VecDeque<LogReader>) {
    loop {
        for _ in 0..readers.len() {
            if exporter.is_full() {
                break;
            }
            let Some(mut reader) = readers.pop_front() else { break };
            let read = hotdesk_base::tasks::spawn_blocking(move || {
                let lines = new_lines(&mut reader);
                (reader, lines)
            });
            let lines = match read.await {
                Ok((reader, lines)) => {
                    readers.push_back(reader);
                    lines
                }
                Err(error) => {
                    tracing::error!(%error, "the logs of the template cannot be read");
                    return;
                }
            };
            for lines in lines.chunks(MAX_LINES) {
                exporter.add("logs", lines.len() as u64, &otlp::logs(lines));
            }
        }
        tokio::time::sleep(LOGS_INTERVAL).await;
    }
}

/// The lines since the last look. A file that cannot be read now is looked at again. Blocks.
fn new_lines(reader: &mut LogReader) -> Vec<LogLine> {
    let path: PathBuf = reader.path().to_owned();
    let lines = reader.lines().unwrap_or_else(|error| {
        tracing::debug!(%error, path = %path.display(), "a log of the template cannot be read; it is retried");
        Vec::new()
    });
    let path = path.display().to_string();
    let line = |mut text: String| {
        text.truncate(text.floor_char_boundary(MAX_LINE));
        LogLine { path: path.clone(), text }
    };
    lines.into_iter().filter(|line| !line.is_empty()).map(line).collect()
}
