//! Which processes start and end? The kernel tells at once where it lets us in (`connector`); elsewhere, in a container for
//! one, those in `/proc` are compared with those of the last look.
//!
//! The kernel's words are only an earlier look: after each of them all processes are compared once, so that what it leaves
//! open (a fork that goes on as it is) and what was lost is found in the same way everywhere.

use std::collections::HashMap;
use std::io;
use std::sync::Once;
use std::time::Duration;

use nix::errno::Errno;
use tokio::time::Instant;

use super::keep::Watcher;
use hotdesk_domain::event::Kind;
use hotdesk_http::feed::Feed;
use hotdesk_wire::event::{Data, Event};

mod connector;
mod stat;

use connector::{Connector, Notice};
use stat::Stat;

/// How often it is looked. A process that lives shorter may not be seen at all where the kernel tells nothing. A look costs
/// 0.1 ms, so it is taken eight times as often as the specification has it.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long is waited for those who take in events slower than processes come and go.
const ROOM_TIMEOUT: Duration = Duration::from_millis(20);

/// What is known of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// It was there before, or was told: its end is told too.
    Told(String),
    /// It was forked just now, and may be about to become another program.
    Waits,
    /// It runs this very program, as the agent and its helpers do, until it becomes another.
    Own,
    /// A thread of the kernel.
    Kernel,
    /// Its end was told, or nothing of it ever; nobody has reaped it yet.
    Ended,
}

/// Watches the processes.
#[derive(Debug)]
pub(super) struct Processes {
    feed: Feed,
    known: HashMap<u32, Seen>,
    /// Device and inode of this program, and its name.
    own: Option<(u64, u64)>,
    own_name: Option<String>,
}

impl Processes {
    pub(super) fn new(feed: Feed) -> Self {
        let pid = std::process::id();
        let own_name = Stat::of(pid).map(|stat| stat.name);
        Self { feed, known: HashMap::new(), own: stat::program(pid).ok(), own_name }
    }

    /// Looks; tells what is different unless it is the first look. Whether another look is to follow, because a fork waits.
    fn look(&mut self, first: bool) -> io::Result<bool> {
        let mut before = std::mem::take(&mut self.known);
        for pid in stat::pids()? {
            let seen = match before.remove(&pid) {
                Some(seen @ (Seen::Told(_) | Seen::Kernel)) => Some(seen),
                Some(Seen::Ended) if Stat::of(pid).is_none_or(|stat| stat.has_ended()) => Some(Seen::Ended),
                known => self.meet(pid, known, first),
            };
            if let Some(seen) = seen {
                self.known.insert(pid, seen);
            }
        }
        for (pid, seen) in before {
            self.tell_end(pid, Some(seen));
        }
        Ok(self.known.values().any(|seen| *seen == Seen::Waits))
    }

    /// What a process is that is new, or waits; `None` when it has ended already.
    fn meet(&self, pid: u32, known: Option<Seen>, first: bool) -> Option<Seen> {
        let stat = Stat::of(pid)?;
        if stat.is_kernel() {
            return Some(Seen::Kernel);
        }
        if self.is_own(pid, &stat, false) {
            return Some(Seen::Own);
        }
        let parent = stat.parent;
        let name = stat.full_name(pid);
        if first {
            return Some(Seen::Told(name));
        }
        // A fork has its parent's name until it becomes a program of its own, mostly within a millisecond.
        if known.is_none() && Stat::of(parent).is_some_and(|parent| name.starts_with(&parent.name)) {
            return Some(Seen::Waits);
        }
        Some(self.tell_start(pid, name))
    }

    /// Takes in what the kernel told.
    fn hear(&mut self, notice: Notice) {
        match notice {
            // The number is another process's now; the next look tells of it, unless it is a program before. What was told
            // stays: then a look was ahead of what the kernel had said already.
            Notice::Forked(pid) => {
                if !matches!(self.known.get(&pid), Some(Seen::Told(_))) {
                    self.known.remove(&pid);
                }
            }
            Notice::Became(pid) => self.become_program(pid),
            Notice::Ended(pid) => {
                let seen = self.known.insert(pid, Seen::Ended);
                self.tell_end(pid, seen);
            }
        }
    }

    /// A process runs another program than before. One that has ended and was reaped since is told without a name.
    fn become_program(&mut self, pid: u32) {
        let stat = Stat::of(pid);
        let told = matches!(self.known.get(&pid), Some(Seen::Told(_)));
        if stat.as_ref().is_some_and(|stat| self.is_own(pid, stat, true)) {
            if !told {
                self.known.insert(pid, Seen::Own);
            }
            return;
        }
        let name = match stat {
            Some(stat) => stat.full_name(pid),
            None if told => return,
            None => String::new(),
        };
        if !matches!(self.known.get(&pid), Some(Seen::Told(before)) if *before == name) {
            self.known.insert(pid, self.tell_start(pid, name));
        }
    }

    fn tell_start(&self, pid: u32, name: String) -> Seen {
        self.feed.publish(Event::now(Data::ProcessStart { pid, name: name.clone() }));
        Seen::Told(name)
    }

    /// The end of what was told.
    fn tell_end(&self, pid: u32, seen: Option<Seen>) {
        if let Some(Seen::Told(name)) = seen {
            self.feed.publish(Event::now(Data::ProcessStop { pid, name }));
        }
    }

    /// Whether a process runs this program. One that ends has nothing left but its name. The forks of a process without core
    /// dumps cannot be asked; those of this one are about to become something else, unless that is what they just did.
    fn is_own(&self, pid: u32, stat: &Stat, has_become: bool) -> bool {
        match stat::program(pid) {
            Ok(program) => Some(program) == self.own,
            Err(_) if has_become || stat.has_ended() => Some(&stat.name) == self.own_name.as_ref(),
            Err(_) => stat.parent == std::process::id(),
        }
    }

    /// Compares until `/proc` cannot be read.
    async fn compare(&mut self) -> io::Result<()> {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look(false)?;
        }
    }

    /// Hears until the kernel tells no more, and compares soon after whatever it tells.
    async fn listen(&mut self, connector: &Connector) -> io::Result<()> {
        let mut look_at = Some(Instant::now() + LOOK_EVERY);
        loop {
            let due = async {
                match look_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let soon = Instant::now() + LOOK_EVERY;
            tokio::select! {
                biased;
                () = due => look_at = self.look(false)?.then_some(soon),
                heard = connector.notices() => match heard {
                    Ok(notices) => {
                        notices.into_iter().for_each(|notice| self.hear(notice));
                        look_at.get_or_insert(soon);
                        self.feed.room(ROOM_TIMEOUT).await;
                    }
                    Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                        tracing::debug!("processes came and went faster than they were heard of");
                        look_at = self.look(false)?.then_some(soon);
                    }
                    Err(error) => return Err(error),
                },
            }
        }
    }
}

impl Watcher for Processes {
    const NAME: &'static str = "processes";
    const KINDS: &'static [Kind] = &[Kind::ProcessStart, Kind::ProcessStop];

    async fn run(&mut self, begun: &(dyn Fn() + Send + Sync)) -> String {
        let connector = Connector::open().await;
        say_once(connector.as_ref().err());
        let first = self.known.is_empty();
        let outcome = match self.look(first) {
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

/// Says in the log how processes are watched, the first time.
fn say_once(refused: Option<&io::Error>) {
    static SAID: Once = Once::new();
    SAID.call_once(|| match refused {
        None => tracing::info!("processes are told by the kernel's process connector"),
        Some(why) => {
            tracing::info!(%why, every = ?LOOK_EVERY, "processes are compared: the kernel's process connector refuses");
        }
    });
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::Value;

    use super::*;

    /// What is told of notices about processes that nobody can ask any more.
    #[tokio::test]
    async fn what_was_told_has_one_end_and_what_was_not_has_none() {
        use Notice::{Became, Ended, Forked};
        // Beyond the highest number of a process (PID_MAX_LIMIT).
        let pid = 1 << 23;
        for (told_before, notices, expected) in [
            (
                false,
                vec![Forked(pid), Became(pid), Ended(pid), Ended(pid)],
                vec!["process_start", "process_stop"],
            ),
            (false, vec![Forked(pid), Ended(pid)], vec![]),
            (false, vec![Ended(pid), Forked(pid), Became(pid)], vec!["process_start"]),
            (true, vec![Became(pid), Ended(pid)], vec!["process_stop"]),
            // A look was ahead of the notices.
            (true, vec![Forked(pid), Became(pid), Ended(pid)], vec!["process_stop"]),
        ] {
            let feed = Feed::new();
            let listener = feed.listen();
            listener.add(Kind::ProcessStart.into());
            listener.add(Kind::ProcessStop.into());
            let mut processes = Processes::new(feed);
            processes.look(true).unwrap();
            if told_before {
                processes.known.insert(pid, Seen::Told("before".to_owned()));
            }
            notices.iter().for_each(|notice| processes.hear(*notice));
            let heard: Vec<Value> = std::iter::from_fn(|| listener.next().now_or_never())
                .map(|news| serde_json::from_str(&news.message()).unwrap())
                .collect();
            let kinds: Vec<_> = heard.iter().map(|told| told["event"]["type"].as_str().unwrap()).collect();
            assert_eq!(kinds, expected, "{notices:?}");
            let names = heard.iter().map(|told| told["event"]["data"]["name"].as_str().unwrap());
            let unnamed = names.filter(|name| name.is_empty()).count();
            assert_eq!(unnamed, heard.len() - usize::from(told_before), "{heard:?}");
        }
    }
}
