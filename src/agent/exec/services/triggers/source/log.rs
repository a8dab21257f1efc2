//! Lines of a service's output that have a text.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::exec::services::log_file;
use crate::exec::services::logs::LogReader;
use crate::exec::services::triggers::{Reporter, fields};
use hotdesk_domain::computer::template::trigger::MIN_POLL;
use hotdesk_wire::template::trigger::LogFormat;

/// The event of a line, if it has the text. A line is a JSON object with `json`; others are left out.
fn line_fields(line: &str, pattern: &str, format: LogFormat) -> Option<Map<String, Value>> {
    // The time is before each line of a file that the author did not name.
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

/// Reports each new line with the text.
pub(super) async fn watch(service: &str, pattern: &str, format: LogFormat, reporter: &Reporter) -> String {
    let programs = match reporter.parts.programs().await {
        Ok(programs) => programs,
        Err(error) => return error.message,
    };
    let Some(program) = programs.services.iter().find(|program| program.name == service) else {
        return format!("there is no service {service}");
    };
    let mut log = LogReader::at_end(PathBuf::from(log_file(program)));
    reporter.watching();
    loop {
        let read = hotdesk_base::tasks::spawn_blocking(move || {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
