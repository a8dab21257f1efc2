//! What of a controller's machines is on the host? Everything that carries its data folder's or a machine's name.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;

use crate::harness::controller::RunningController;
use crate::harness::host::{self, names_in};

/// Recovery works in the background; on a busy machine it takes seconds.
const TIMEOUT: Duration = Duration::from_secs(45);

/// Looks for what one data folder's machines leave; it remembers what it has once seen.
pub struct Remains {
    data: PathBuf,
    /// Every machine that was ever seen.
    known: std::sync::Mutex<BTreeSet<String>>,
    /// Network interfaces that machines were seen with: where their number is read, and the number.
    interfaces: std::sync::Mutex<BTreeSet<(PathBuf, String)>>,
    /// How the guests' addresses begin, where no other controller of this host has such.
    subnet: Option<String>,
}

/// A computer with its status at rest, as its row says.
pub type Row = (String, String);

impl Remains {
    pub fn of(house: &RunningController) -> Self {
        let data = fs::canonicalize(house.data_dir()).expect("a data folder");
        let this = Self { data, known: Default::default(), interfaces: Default::default(), subnet: None };
        this.look();
        this
    }

    /// As [`Self::of`], for a house whose guests alone have addresses that begin so.
    pub fn within(house: &RunningController, subnet: &str) -> Self {
        Self { subnet: Some(subnet.to_owned()), ..Self::of(house) }
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

    /// Why what is on the host is not exactly what these rows need; `None` when it is.
    fn excess(&self, rows: &[Row]) -> Option<String> {
        self.look();
        let mut wanted: Vec<&String> = rows.iter().map(|(id, _)| id).collect();
        wanted.sort();
        let running: Vec<&String> =
            rows.iter().filter(|(_, status)| status == "running").map(|(id, _)| id).collect();
        let machines = self.machines();
        if machines.iter().collect::<Vec<_>>() != wanted {
            return Some(format!("machines {machines:?}, computers {wanted:?}"));
        }
        let data = self.data.to_string_lossy().into_owned();
        let left: Vec<String> = names_in(&self.data.join("runtime"));
        if left.iter().any(|name| !running.iter().any(|id| name.contains(*id))) {
            return Some(format!("the runtime's records {left:?} for {running:?}"));
        }
        let left: Vec<String> = names_in(&self.data.join("trash"));
        if !left.is_empty() {
            return Some(format!("trash holds {left:?}"));
        }
        if let Some(half) = rows.iter().find_map(|row| self.half_made(row)) {
            return Some(half);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        if let Some(mount) = mounts.lines().find(|line| line.contains(&data) && line.contains("machines")) {
            return Some(format!("a mount: {mount}"));
        }
        let own = |file: &String| {
            rows.iter().any(|(id, _)| file.contains(id)) || file.contains(&format!("{data}/"))
        };
        let own: Vec<String> =
            host::loop_files().into_iter().filter(|file| file.contains("disk.") && own(file)).collect();
        if own.len() != running.len() {
            return Some(format!("loop devices for {} computers: {own:?}", running.len()));
        }
        if self.slots().len() != running.len() {
            return Some(format!("slots {:?} for {} computers", self.slots(), running.len()));
        }
        let known = self.known.lock().expect("no panic").clone();
        if let Some(left) = known.iter().filter(|id| !running.contains(id)).find_map(|id| host::left_of(id)) {
            return Some(left);
        }
        if let Some(idle) = running.iter().find(|id| host::processes(id).is_empty()) {
            return Some(format!("nothing runs of {idle}"));
        }
        let there =
            |(index, number): &&(PathBuf, String)| fs::read_to_string(index).is_ok_and(|now| now == *number);
        let interfaces = self.interfaces.lock().expect("no panic");
        let left: Vec<_> = interfaces.iter().filter(there).collect();
        if left.len() > running.len() {
            return Some(format!("network interfaces {left:?} for {} computers", running.len()));
        }
        self.unlisted(running.len())
    }

    /// What a computer's folder holds that its status does not ask for.
    fn half_made(&self, (id, status): &Row) -> Option<String> {
        let folder = self.data.join("machines").join(id);
        let places = [folder.clone(), folder.join("bundle"), folder.join("snapshots")];
        let names: Vec<String> = places.iter().flat_map(|place| names_in(place)).collect();
        let half = names.iter().find(|name| name.ends_with(".new") || *name == "memory.used");
        let told = |name: &String| format!("{name} of {id}, which is {status}");
        half.map(told).or_else(|| {
            let saved = names.iter().any(|name| name == "memory");
            (saved != (status == "suspended"))
                .then(|| format!("memory is saved: {saved}, of {id}, which is {status}"))
        })
    }

    /// Where the guests' network is the house's own: that the packet rules know a guest for each computer that runs, and no more.
    fn unlisted(&self, running: usize) -> Option<String> {
        let subnet = self.subnet.as_ref()?;
        let listed =
            Command::new("nft").args(["list", "set", "inet", "hotdesk", "guests"]).output().expect("nft");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let known: Vec<&str> = listed
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|word| word.starts_with(subnet.as_str()))
            .collect();
        (known.len() != running).then(|| format!("the packet rules know {known:?} for {running} computers"))
    }

    /// Waits until the host holds exactly what these computers, all running, need.
    pub async fn are_those_of(&self, computers: &[String]) {
        let rows: Vec<Row> = computers.iter().map(|id| (id.clone(), "running".to_owned())).collect();
        self.are(&rows, TIMEOUT).await;
    }

    /// Waits until the host holds exactly what these rows need.
    pub async fn are(&self, rows: &[Row], patience: Duration) {
        let clean = wait::until(patience, || async { self.excess(rows).is_none().then_some(()) });
        if clean.await.is_none()
            && let Some(why) = self.excess(rows)
        {
            panic!("left on the host: {why}");
        }
    }
}
