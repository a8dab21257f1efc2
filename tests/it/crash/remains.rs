//! What of a controller's machines is on the host? Everything that carries its data folder's or a machine's name.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hotdesk::base::wait;

use crate::harness::controller::RunningController;
use crate::harness::host::{self, names_in};

/// Recovery works in the background; on a busy machine it takes seconds.
const PATIENCE: Duration = Duration::from_secs(45);

/// Looks for what one data folder's machines leave; it remembers what it has once seen.
pub struct Remains {
    data: PathBuf,
    /// Every machine that was ever seen.
    known: std::sync::Mutex<BTreeSet<String>>,
    /// Network interfaces that machines were seen with: where their number is read, and the number.
    interfaces: std::sync::Mutex<BTreeSet<(PathBuf, String)>>,
}

impl Remains {
    pub fn of(house: &RunningController) -> Self {
        let data = fs::canonicalize(house.data_dir()).expect("a data folder");
        let this = Self { data, known: Default::default(), interfaces: Default::default() };
        this.look();
        this
    }

    /// Remembers what there is now.
    pub fn look(&self) {
        self.known.lock().expect("no panic").extend(self.machines());
        for slot in self.slots() {
            let index = PathBuf::from(format!("/sys/class/net/hotdesk{slot:04x}/ifindex"));
            if let Ok(number) = fs::read_to_string(&index) {
                self.interfaces.lock().expect("no panic").insert((index, number));
            }
        }
    }

    /// Machines with a folder.
    pub fn machines(&self) -> Vec<String> {
        names_in(&self.data.join("machines"))
    }

    /// Host processes of the machines.
    pub fn processes(&self) -> Vec<u32> {
        self.known.lock().expect("no panic").iter().flat_map(|id| host::processes(id)).collect()
    }

    fn slots(&self) -> Vec<u16> {
        host::slots(&self.data.to_string_lossy())
    }

    /// Why what is on the host is not exactly what these computers, all running, need; `None` when it is.
    fn excess(&self, computers: &[String]) -> Option<String> {
        self.look();
        let mut wanted = computers.to_vec();
        wanted.sort();
        let machines = self.machines();
        if machines != wanted {
            return Some(format!("machines {machines:?}, computers {wanted:?}"));
        }
        let data = self.data.to_string_lossy().into_owned();
        let gone: Vec<String> =
            self.known.lock().expect("no panic").iter().filter(|id| !wanted.contains(id)).cloned().collect();
        for place in ["runtime", "trash"] {
            let left: Vec<String> = names_in(&self.data.join(place));
            if left.iter().any(|name| !wanted.contains(name)) {
                return Some(format!("{place} holds {left:?}"));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        if let Some(mount) = mounts.lines().find(|line| line.contains(&data) && line.contains("machines")) {
            return Some(format!("a mount: {mount}"));
        }
        let own: Vec<String> =
            host::loop_files().into_iter().filter(|file| file.contains(&format!("{data}/"))).collect();
        if own.len() != wanted.len() {
            return Some(format!("loop devices for {} computers: {own:?}", wanted.len()));
        }
        if self.slots().len() != wanted.len() {
            return Some(format!("slots {:?} for {} computers", self.slots(), wanted.len()));
        }
        if let Some(left) = gone.iter().find_map(|id| host::left_of(id)) {
            return Some(left);
        }
        let there =
            |(index, number): &&(PathBuf, String)| fs::read_to_string(index).is_ok_and(|now| now == *number);
        let interfaces = self.interfaces.lock().expect("no panic");
        let left: Vec<_> = interfaces.iter().filter(there).collect();
        (left.len() > wanted.len())
            .then(|| format!("network interfaces {left:?} for {} computers", wanted.len()))
    }

    /// Waits until the host holds exactly what these computers, all running, need.
    pub async fn are_those_of(&self, computers: &[String]) {
        let clean = wait::until(PATIENCE, || async { self.excess(computers).is_none().then_some(()) });
        if clean.await.is_none()
            && let Some(why) = self.excess(computers)
        {
            panic!("left on the host: {why}");
        }
    }
}
