//! Watcher of process starts and exits: events of the kernel (`connector`) where available, else comparison
//! of `/proc` snapshots.
//!
//! Every kernel event is followed by one comparison. So what events leave open (a fork that executes no
//! program) and lost events are handled in the same way everywhere.

use std::collections::HashMap;
use std::io;
use std::sync::Once;
use std::time::Duration;

use nix::errno::Errno;
use tokio::time::Instant;

use super::watcher::Watcher;
use crate::exec::shim::PROCESS_NAME;
use hotdesk_domain::desktop::event::EventKind;
use hotdesk_http::feed::Feed;
use hotdesk_wire::desktop::event::{Event, EventData};

mod connector;
mod stat;

use connector::{Connector, ProcessNotice};
use stat::Stat;

/// Interval of comparisons (docs/api/events.md). Without kernel events a process with a shorter life may be
/// missed. A comparison costs 0.1 ms.
const COMPARE_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout for slow listeners when there are many events.
const BACKPRESSURE_TIMEOUT: Duration = Duration::from_millis(20);

/// Tracked state of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TrackedProcess {
    /// It existed before or its start was published: its exit is published too.
    Published(String),
    /// It was forked recently and may be about to execute a program.
    Pending,
    /// It runs this program (the agent or a helper) until it executes another.
    Own,
    /// A kernel thread.
    Kernel,
    /// Its exit was published or does not matter; it is not reaped yet.
    Ended,
}

/// Watcher of processes.
#[derive(Debug)]
pub(super) struct ProcessWatcher {
    feed: Feed,
    known: HashMap<u32, TrackedProcess>,
    /// Device and inode of this program.
    own: Option<(u64, u64)>,
    /// Names of processes that run it.
    own_names: Vec<String>,
}

impl ProcessWatcher {
    pub(super) fn new(feed: Feed) -> Self {
        let pid = std::process::id();
        let mut own_names = vec![PROCESS_NAME.to_string_lossy().into_owned()];
        own_names.extend(Stat::of(pid).map(|stat| stat.name));
        Self { feed, known: HashMap::new(), own: stat::program(pid).ok(), own_names }
    }

    /// Compares with `/proc` and publishes differences, except on the first call. Returns whether another
    /// comparison must follow, because a fork is pending.
    fn compare_once(&mut self, first: bool) -> io::Result<bool> {
        let mut before = std::mem::take(&mut self.known);
        for pid in stat::pids()? {
            let seen = match before.remove(&pid) {
                Some(seen @ (TrackedProcess::Published(_) | TrackedProcess::Kernel)) => Some(seen),
                Some(TrackedProcess::Ended) if Stat::of(pid).is_none_or(|stat| stat.has_ended()) => {
                    Some(TrackedProcess::Ended)
                }
                known => self.classify(pid, known, first),
            };
            if let Some(seen) = seen {
                self.known.insert(pid, seen);
            }
        }
        for (pid, seen) in before {
            self.publish_exit(pid, Some(seen));
        }
        Ok(self.known.values().any(|seen| *seen == TrackedProcess::Pending))
    }

    /// Classifies a process that is new or pending; `None` when it has ended.
    fn classify(&self, pid: u32, known: Option<TrackedProcess>, first: bool) -> Option<TrackedProcess> {
        let stat = Stat::of(pid)?;
        if stat.is_kernel() {
            return Some(TrackedProcess::Kernel);
        }
        if self.is_own(pid, &stat, false) {
            return Some(TrackedProcess::Own);
        }
        let parent = stat.parent;
        let name = stat.full_name(pid);
        if first {
            return Some(TrackedProcess::Published(name));
        }
        // A fork has its parent's name until it executes a program, usually within a millisecond.
        if known.is_none() && Stat::of(parent).is_some_and(|parent| name.starts_with(&parent.name)) {
            return Some(TrackedProcess::Pending);
        }
        Some(self.publish_start(pid, name))
    }

    /// Handles an event of the kernel.
    fn handle(&mut self, notice: ProcessNotice) {
        match notice {
            // The id belongs to a new process now; the next comparison or exec publishes it. A published
            // process is unchanged: a comparison was ahead of this event.
            ProcessNotice::Fork(pid) => {
                if !matches!(self.known.get(&pid), Some(TrackedProcess::Published(_))) {
                    self.known.remove(&pid);
                }
            }
            ProcessNotice::Exec(pid) => self.handle_exec(pid),
            ProcessNotice::Exit(pid) => {
                let seen = self.known.insert(pid, TrackedProcess::Ended);
                self.publish_exit(pid, seen);
            }
        }
    }

    /// A process executed a program. If it has been reaped meanwhile, its name is empty.
    fn handle_exec(&mut self, pid: u32) {
        let stat = Stat::of(pid);
        let published = matches!(self.known.get(&pid), Some(TrackedProcess::Published(_)));
        if stat.as_ref().is_some_and(|stat| self.is_own(pid, stat, true)) {
            if !published {
                self.known.insert(pid, TrackedProcess::Own);
            }
            return;
        }
        let name = match stat {
            Some(stat) => stat.full_name(pid),
            None if published => return,
            None => String::new(),
        };
        if !matches!(self.known.get(&pid), Some(TrackedProcess::Published(before)) if *before == name) {
            self.known.insert(pid, self.publish_start(pid, name));
        }
    }

    fn publish_start(&self, pid: u32, name: String) -> TrackedProcess {
        self.feed.publish(Event::now(EventData::ProcessStart { pid, name: name.clone() }));
        TrackedProcess::Published(name)
    }

    /// Publishes the exit of a published process.
    fn publish_exit(&self, pid: u32, seen: Option<TrackedProcess>) {
        if let Some(TrackedProcess::Published(name)) = seen {
            self.feed.publish(Event::now(EventData::ProcessStop { pid, name }));
        }
    }

    /// Whether a process runs this program. Of an ending process only its name is readable. Forks of a
    /// process without core dumps are not readable; forks of this one are about to execute something, unless
    /// they just did.
    fn is_own(&self, pid: u32, stat: &Stat, after_exec: bool) -> bool {
        match stat::program(pid) {
            Ok(program) => Some(program) == self.own,
            Err(_) if after_exec || stat.has_ended() => self.own_names.contains(&stat.name),
            Err(_) => stat.parent == std::process::id(),
        }
    }

    /// Compares until `/proc` cannot be read.
    async fn compare(&mut self) -> io::Result<()> {
        loop {
            tokio::time::sleep(COMPARE_INTERVAL).await;
            self.compare_once(false)?;
        }
    }

    /// Handles kernel events until they fail, and compares soon after each.
    async fn listen(&mut self, connector: &Connector) -> io::Result<()> {
        let mut compare_at = Some(Instant::now() + COMPARE_INTERVAL);
        loop {
            let due = async {
                match compare_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let soon = Instant::now() + COMPARE_INTERVAL;
            tokio::select! {
                biased;
                () = due => compare_at = self.compare_once(false)?.then_some(soon),
                heard = connector.notices() => match heard {
                    Ok(notices) => {
                        notices.into_iter().for_each(|notice| self.handle(notice));
                        compare_at.get_or_insert(soon);
                        self.feed.wait_for_space(BACKPRESSURE_TIMEOUT).await;
                    }
                    Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                        tracing::debug!("process events were lost; comparing /proc");
                        compare_at = self.compare_once(false)?.then_some(soon);
                    }
                    Err(error) => return Err(error),
                },
            }
        }
    }
}

impl Watcher for ProcessWatcher {
    const NAME: &'static str = "processes";
    const KINDS: &'static [EventKind] = &[EventKind::ProcessStart, EventKind::ProcessStop];

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let connector = Connector::open().await;
        log_once(connector.as_ref().err());
        let first = self.known.is_empty();
        let outcome = match self.compare_once(first) {
            Ok(_) => {
                begun();
                match connector {
                    Ok(connector) => self.listen(&connector).await,
                    Err(_) => self.compare().await,
                }
            }
            Err(error) => Err(error),
        };
        outcome.map_or_else(|error| error.to_string(), |()| String::new())
    }
}

/// Logs once how processes are watched.
fn log_once(refused: Option<&io::Error>) {
    static LOGGED: Once = Once::new();
    LOGGED.call_once(|| match refused {
        None => tracing::info!("process events come from the kernel's process connector"),
        Some(why) => {
            tracing::info!(%why, every = ?COMPARE_INTERVAL, "no process connector in this kernel or namespace; comparing /proc instead");
        }
    });
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::Value;

    use super::*;

    /// A shim that a comparison finds when it has just ended.
    #[test]
    fn an_ended_process_is_known_by_its_name() {
        let watcher = ProcessWatcher::new(Feed::new());
        // Above the highest process id (PID_MAX_LIMIT): its program cannot be read.
        let pid = 1 << 23;
        for (name, is_own) in [("hotdesk-shim", true), ("sleep", false)] {
            let stat = Stat::parse(&format!("{pid} ({name}) Z 1 1 1 0 -1 0")).unwrap();
            assert_eq!(watcher.is_own(pid, &stat, false), is_own, "{name}");
        }
    }

    /// Events for processes that do not exist any more.
    #[tokio::test]
    async fn each_published_start_has_one_exit() {
        use ProcessNotice::{Exec, Exit, Fork};
        // Above the highest process id (PID_MAX_LIMIT).
        let pid = 1 << 23;
        for (published_before, notices, expected) in [
            (false, vec![Fork(pid), Exec(pid), Exit(pid), Exit(pid)], vec!["process_start", "process_stop"]),
            (false, vec![Fork(pid), Exit(pid)], vec![]),
            (false, vec![Exit(pid), Fork(pid), Exec(pid)], vec!["process_start"]),
            (true, vec![Exec(pid), Exit(pid)], vec!["process_stop"]),
            // A comparison was ahead of the events.
            (true, vec![Fork(pid), Exec(pid), Exit(pid)], vec!["process_stop"]),
        ] {
            let feed = Feed::new();
            let listener = feed.listen();
            listener.add(EventKind::ProcessStart.into());
            listener.add(EventKind::ProcessStop.into());
            let mut processes = ProcessWatcher::new(feed);
            processes.compare_once(true).unwrap();
            if published_before {
                processes.known.insert(pid, TrackedProcess::Published("before".to_owned()));
            }
            notices.iter().for_each(|notice| processes.handle(*notice));
            let heard: Vec<Value> = std::iter::from_fn(|| listener.next().now_or_never())
                .map(|news| serde_json::from_str(&news.message()).unwrap())
                .collect();
            let kinds: Vec<_> =
                heard.iter().map(|message| message["event"]["type"].as_str().unwrap()).collect();
            assert_eq!(kinds, expected, "{notices:?}");
            let names = heard.iter().map(|message| message["event"]["data"]["name"].as_str().unwrap());
            let unnamed = names.filter(|name| name.is_empty()).count();
            assert_eq!(unnamed, heard.len() - usize::from(published_before), "{heard:?}");
        }
    }
}
