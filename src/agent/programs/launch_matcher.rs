//! Which window belongs to a program that was just started? Its own, one of a process that it started, or one that a
//! program of the same kind, which ran before, opened in its stead.

use std::collections::{HashMap, HashSet};

use crate::exec::tree::{self, Process};
use hotdesk_wire::window::Window;

/// Longest chain of parents that is followed.
const MOST_PARENTS: usize = 64;

/// What is known of a launch.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    /// The program's process.
    pub(super) pid: u32,
    /// The entry that its environment, and that of all its children, has.
    pub(super) mark: String,
    /// What the class of its windows may be called, in small letters.
    pub(super) names: Vec<String>,
    /// The windows that were there before.
    pub(super) before: HashSet<String>,
}

impl Sight {
    /// The launch's window among all; one of its own processes before one that only looks like it.
    pub(super) fn find(&self, windows: Vec<Window>) -> Option<Window> {
        let fresh: Vec<Window> =
            windows.into_iter().filter(|window| !self.before.contains(&window.id)).collect();
        if fresh.is_empty() {
            return None;
        }
        let table: HashMap<i32, Process> =
            tree::processes().into_iter().map(|process| (process.pid, process)).collect();
        let own = fresh.iter().find(|window| window.pid.is_some_and(|pid| self.is_own(pid, &table)));
        own.or_else(|| fresh.iter().find(|window| self.is_called_so(window))).cloned()
    }

    /// Whether a process of the launch is alive.
    pub(super) async fn lives(&self) -> bool {
        let sight = self.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let table: HashMap<i32, Process> =
                tree::processes().into_iter().map(|process| (process.pid, process)).collect();
            table.values().any(|process| !process.ended && sight.is_own(process.pid.cast_unsigned(), &table))
        });
        looked.await.unwrap_or_else(|error| {
            tracing::error!(%error, "looking for a launch's processes failed");
            false
        })
    }

    /// Whether a process is the program, its descendant, of its session, or has its mark.
    fn is_own(&self, pid: u32, table: &HashMap<i32, Process>) -> bool {
        let (wanted, mut at) = (self.pid.cast_signed(), pid.cast_signed());
        for _ in 0..MOST_PARENTS {
            let Some(process) = table.get(&at) else { break };
            if process.pid == wanted || process.session == wanted {
                return true;
            }
            at = process.parent;
        }
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == self.mark.as_bytes()))
    }

    fn is_called_so(&self, window: &Window) -> bool {
        let called = [window.class.to_lowercase(), window.instance.to_lowercase()];
        self.names.iter().any(|name| called.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_process_counts_before_a_like_name() {
        let own = std::process::id();
        let sight = Sight {
            pid: own,
            mark: "NO=SUCH MARK".to_owned(),
            names: vec!["xterm".to_owned()],
            before: HashSet::from(["0x1".to_owned()]),
        };
        let window = |id: &str, class: &str, pid: Option<u32>| Window {
            id: id.to_owned(),
            title: String::new(),
            class: class.to_owned(),
            instance: String::new(),
            pid,
            screen: "default".to_owned(),
            x: 0,
            y: 0,
            width: 1,
            height: 1,
            frame: hotdesk_wire::window::Frame::default(),
            focused: false,
            minimized: false,
            maximized: false,
            fullscreen: false,
            desktop: None,
            kind: "normal".to_owned(),
        };
        let find = |windows: &[Window]| sight.find(windows.to_vec()).map(|window| window.id);
        let (old, like) = (window("0x1", "XTerm", Some(own)), window("0x2", "XTerm", Some(1)));
        let (mine, other) = (window("0x3", "Other", Some(own)), window("0x4", "Other", None));
        assert_eq!(find(&[old.clone(), other.clone()]), None);
        assert_eq!(find(&[old.clone(), other.clone(), like.clone()]), Some("0x2".to_owned()));
        assert_eq!(find(&[old, other, like, mine]), Some("0x3".to_owned()));
    }
}
