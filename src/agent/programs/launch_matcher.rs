//! Attribution of windows and processes to a launch.
//!
//! A launch owns the windows of its program and of the processes that the program started. Without such a
//! window it owns a new one with the program's class: a running instance of the program may have opened it.

use std::collections::{HashMap, HashSet};

use crate::exec::tree::{self, ProcessEntry};
use hotdesk_wire::desktop::window::Window;

/// Maximum length of a chain of parents: bounds the work for one process.
const MAX_PARENTS: usize = 64;

/// Properties that identify the windows and processes of a launch.
#[derive(Clone, Debug)]
pub(super) struct LaunchMatcher {
    /// Process id of the program.
    pub(super) pid: u32,
    /// Entry `NAME=VALUE` in the environment of the program and of its descendants.
    pub(super) mark: String,
    /// Possible class names of its windows, in lower case.
    pub(super) names: Vec<String>,
    /// Ids of the windows that existed before the launch.
    pub(super) before: HashSet<String>,
}

impl LaunchMatcher {
    /// Returns the launch's window among `windows`. A window of its processes wins over one of the same
    /// class.
    pub(super) fn find_window(&self, windows: Vec<Window>) -> Option<Window> {
        let new: Vec<Window> =
            windows.into_iter().filter(|window| !self.before.contains(&window.id)).collect();
        if new.is_empty() {
            return None;
        }
        let table: HashMap<i32, ProcessEntry> =
            tree::processes().into_iter().map(|process| (process.pid, process)).collect();
        let own = new.iter().find(|window| window.pid.is_some_and(|pid| self.is_own(pid, &table)));
        own.or_else(|| new.iter().find(|window| self.has_class(window))).cloned()
    }

    /// Whether a process of the launch runs. Returns false when the processes cannot be read.
    pub(super) async fn has_running_process(&self) -> bool {
        let matcher = self.clone();
        let read = hotdesk_base::tasks::spawn_blocking(move || {
            let table: HashMap<i32, ProcessEntry> =
                tree::processes().into_iter().map(|process| (process.pid, process)).collect();
            table
                .values()
                .any(|process| !process.ended && matcher.is_own(process.pid.cast_unsigned(), &table))
        });
        read.await.unwrap_or_else(|error| {
            tracing::error!(%error, "the task that reads the processes of a launch failed; none is assumed to run");
            false
        })
    }

    /// Whether a process is the program, its descendant, in its session, or has its mark.
    fn is_own(&self, pid: u32, table: &HashMap<i32, ProcessEntry>) -> bool {
        let (wanted, mut at) = (self.pid.cast_signed(), pid.cast_signed());
        for _ in 0..MAX_PARENTS {
            let Some(process) = table.get(&at) else { break };
            if process.pid == wanted || process.session == wanted {
                return true;
            }
            at = process.parent;
        }
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == self.mark.as_bytes()))
    }

    fn has_class(&self, window: &Window) -> bool {
        let classes = [window.class.to_lowercase(), window.instance.to_lowercase()];
        self.names.iter().any(|name| classes.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_its_process_wins_over_one_of_its_class() {
        let own = std::process::id();
        let matcher = LaunchMatcher {
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
            frame: hotdesk_wire::desktop::window::Frame::default(),
            focused: false,
            minimized: false,
            maximized: false,
            fullscreen: false,
            desktop: None,
            kind: "normal".to_owned(),
        };
        let find = |windows: &[Window]| matcher.find_window(windows.to_vec()).map(|window| window.id);
        let (old, like) = (window("0x1", "XTerm", Some(own)), window("0x2", "XTerm", Some(1)));
        let (mine, other) = (window("0x3", "Other", Some(own)), window("0x4", "Other", None));
        assert_eq!(find(&[old.clone(), other.clone()]), None);
        assert_eq!(find(&[old.clone(), other.clone(), like.clone()]), Some("0x2".to_owned()));
        assert_eq!(find(&[old, other, like, mine]), Some("0x3".to_owned()));
    }
}
