//! `hotdesk logs`: the log of a computer's agent, and the output of background processes and services.

use std::time::Duration;

use clap::Args;
use reqwest::header::RANGE;
use reqwest::{Method, Response};

use super::selection::select;
use super::{processes, services};
use crate::client::api::{Api, REQUEST_TIMEOUT};
use crate::client::event_stream::EventStream;
use crate::client::{Session, resolve};
use crate::computers::ComputerArg;
use crate::failure::{Failure, Outcome};
use crate::output;
use hotdesk_wire::files::guest_file::Stat;
use hotdesk_wire::programs::process::{LOST_HEADER, OFFSET_HEADER, Process};
use hotdesk_wire::programs::service::{ServiceList, ServiceLog};

/// Log file of the agent in a computer (docs/operating.md).
const AGENT_LOG: &str = "/var/log/hotdesk/agent.log";
/// Time between two looks at the log while it is followed. Requests are rate-limited per key.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Seconds after which the server ends a request that follows output. The client continues with the next one.
const FOLLOW_SECONDS: &str = "300";

/// `hotdesk logs`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    target: ComputerArg,
    /// Background process (id, process id or name), else service of the template (name): print its output;
    /// default: the log of the agent.
    #[arg(value_name = "PROCESS|SERVICE")]
    source: Option<String>,
    /// Continue with what is written later.
    #[arg(long, short)]
    follow: bool,
    /// Only this number of lines at the end, and with --follow what comes after them.
    #[arg(long, short = 'n', value_name = "NUMBER")]
    lines: Option<usize>,
}

/// Prints a log.
///
/// # Errors
/// When no process, more than one, and no service matches, the server refuses a request or is unreachable.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.target.computer).await?;
    match &options.source {
        None => agent_log(&session.api, &id, &options).await,
        Some(wanted) => {
            let list = processes::all(&session.api, &id).await?;
            match select(&list.processes, wanted) {
                Ok(process) => {
                    let path = ["computers", &id, "processes", &process.id];
                    process_output(&session.api, &path, &options).await
                }
                Err(none) => service_log(session, &id, wanted, &options, &none).await,
            }
        }
    }
}

async fn agent_log(api: &Api, computer: &str, options: &Options) -> Outcome<()> {
    let path = ["computers", computer, "files", "content"];
    let log = api.get(&path, &[("path", AGENT_LOG)], REQUEST_TIMEOUT).await?;
    output::bytes(tail(log.body(), options.lines))?;
    if options.follow { follow_agent_log(api, computer, log.body().len() as u64).await } else { Ok(()) }
}

/// Prints what is added to the log behind `offset`, until the reader of the output is gone.
async fn follow_agent_log(api: &Api, computer: &str, mut offset: u64) -> Outcome<()> {
    let (content, stat) =
        (["computers", computer, "files", "content"], ["computers", computer, "files", "stat"]);
    let query = [("path", AGENT_LOG)];
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let facts: Stat = api.get(&stat, &query, REQUEST_TIMEOUT).await?.decode()?;
        let size = facts.entry.size;
        if size < offset {
            // The agent has begun a new file.
            offset = 0;
        }
        if size > offset {
            let request = api.request(Method::GET, api.url(&content)).query(&query);
            let request = request.header(RANGE, format!("bytes={offset}-{}", size - 1));
            let added = api.send(request.timeout(REQUEST_TIMEOUT)).await?;
            offset += added.body().len() as u64;
            if !output::stream(added.body())? {
                return Ok(());
            }
        }
    }
}

/// Prints the output of a service. `none` says that no process matches.
async fn service_log(
    session: &Session,
    computer: &str,
    service: &str,
    options: &Options,
    none: &Failure,
) -> Outcome<()> {
    let api = &session.api;
    let list: ServiceList =
        api.get(&["computers", computer, "services"], &[], REQUEST_TIMEOUT).await?.decode()?;
    if !list.services.iter().any(|it| it.name == service) {
        let (text, computer) = (none.text(), &options.target.computer);
        return Err(format!("{text}, and the services with `hotdesk services list {computer}`").into());
    }
    let path = ["computers", computer, "services", service, "log"];
    // Opened first: a line that is written meanwhile is rather printed twice than not at all.
    let later = if options.follow {
        Some(EventStream::open(api, &path, &[("follow", "true"), ("bytes", "0")]).await?)
    } else {
        None
    };
    let log: ServiceLog = api.get(&path, &[], REQUEST_TIMEOUT).await?.decode()?;
    output::bytes(tail(log.text.as_bytes(), options.lines))?;
    match later {
        Some(lines) => services::print_lines(session, lines).await,
        None => Ok(()),
    }
}

async fn process_output(api: &Api, process: &[&str], options: &Options) -> Outcome<()> {
    let mut offset = 0;
    if options.lines.is_some() || !options.follow {
        let mut response = open(api, process, &[]).await?;
        offset = number(&response, OFFSET_HEADER);
        let mut stored = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| api.transport_failure(error))? {
            stored.extend_from_slice(&chunk);
        }
        offset += stored.len() as u64;
        output::bytes(tail(&stored, options.lines))?;
    }
    if options.follow { follow_output(api, process, offset).await } else { Ok(()) }
}

/// Prints output from `offset` on, until the process has ended or the reader of the output is gone.
async fn follow_output(api: &Api, process: &[&str], mut offset: u64) -> Outcome<()> {
    loop {
        // Asked before the output: what an ended process has written is complete.
        let record: Process = api.get(process, &[], REQUEST_TIMEOUT).await?.decode()?;
        let from = offset.to_string();
        let query = [("follow", "true"), ("wait_seconds", FOLLOW_SECONDS), ("offset", from.as_str())];
        let mut response = open(api, process, &query).await?;
        let lost = number(&response, LOST_HEADER);
        if lost > 0 {
            eprintln!("hotdesk: {lost} bytes are no longer stored");
        }
        let start = number(&response, OFFSET_HEADER);
        offset = start;
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    offset += chunk.len() as u64;
                    if !output::stream(&chunk)? {
                        return Ok(());
                    }
                }
                Ok(None) => break,
                // The server disconnects a reader that is too slow. It continues from its offset.
                Err(_) if offset > start => break,
                Err(error) => return Err(api.transport_failure(error)),
            }
        }
        if record.status != "running" {
            return Ok(());
        }
    }
}

/// Opens the output of a process; only the head has a timeout, because a quiet process writes nothing for long.
async fn open(api: &Api, process: &[&str], query: &[(&str, &str)]) -> Outcome<Response> {
    let url = api.url(&[process, &["output"]].concat());
    let request = api.request(Method::GET, url).query(query);
    let opening = tokio::time::timeout(REQUEST_TIMEOUT, api.open(request));
    opening.await.map_err(|_| "the server did not answer in a minute; try again")?
}

/// Number in a header of the response; 0 when it is absent.
fn number(response: &Response, header: &str) -> u64 {
    let value = response.headers().get(header).and_then(|value| value.to_str().ok()?.parse().ok());
    value.unwrap_or(0)
}

/// The last `lines` lines, or everything.
fn tail(content: &[u8], lines: Option<usize>) -> &[u8] {
    let Some(lines) = lines else { return content };
    let mut rest: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    let skipped: usize = rest.drain(..rest.len().saturating_sub(lines)).map(<[u8]>::len).sum();
    &content[skipped..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_has_whole_lines() {
        let text = b"one\ntwo\nthree".as_slice();
        for (lines, expected) in
            [(None, text), (Some(9), text), (Some(2), b"two\nthree"), (Some(1), b"three"), (Some(0), b"")]
        {
            assert_eq!(tail(text, lines), expected, "{lines:?}");
        }
        assert_eq!(tail(b"one\ntwo\n", Some(1)), b"two\n");
        assert_eq!(tail(b"", Some(1)), b"");
    }
}
