//! Host resources of a controller's machines.
//!
//! These are all resources that carry the name of its data folder or of a machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;

use crate::harness::controller::RunningController;
use crate::harness::host::{self, names_in};

/// Recovery works in the background and takes seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(45);

/// Finds host resources of one data folder's machines, including machines that it has seen earlier.
pub struct Leftovers {
    data: PathBuf,
    /// Every machine that was seen so far.
    seen_machines: std::sync::Mutex<BTreeSet<String>>,
    /// Network interfaces of machines: the file with the interface's index, and the index.
    interfaces: std::sync::Mutex<BTreeSet<(PathBuf, String)>>,
    /// Prefix of the guests' addresses, if no other controller of this host uses it.
    subnet: Option<String>,
    /// Machines of boot snapshots, which are no computers.
    prepared: Vec<Row>,
}

/// A computer's id and its stored status.
pub type Row = (String, String);

impl Leftovers {
    pub fn new(controller: &RunningController) -> Self {
        let data = fs::canonicalize(controller.data_dir()).expect("a data folder");
        let leftovers = Self {
            data,
            seen_machines: Default::default(),
            interfaces: Default::default(),
            subnet: None,
            prepared: Vec::new(),
        };
        leftovers.observe();
        leftovers
    }

    /// Like [`Self::new`], for a controller whose machines so far are those of boot snapshots.
    pub fn beside_boot_snapshots(controller: &RunningController) -> Self {
        let leftovers = Self::new(controller);
        let prepared = leftovers.machines().into_iter().map(|id| (id, "stopped".to_owned())).collect();
        Self { prepared, ..leftovers }
    }

    /// Like [`Self::new`], for a controller whose guests alone have addresses with this prefix.
    pub fn with_subnet(controller: &RunningController, subnet: &str) -> Self {
        Self { subnet: Some(subnet.to_owned()), ..Self::new(controller) }
    }

    /// Records the machines that exist now.
    pub fn observe(&self) {
        self.seen_machines.lock().expect("no panic").extend(self.machines());
        for slot in self.slots() {
            let index = PathBuf::from(format!("/sys/class/net/hotdesk{slot:04x}/ifindex"));
            if let Ok(number) = fs::read_to_string(&index) {
                self.interfaces.lock().expect("no panic").insert((index, number));
            }
        }
    }

    /// Machines that have a folder.
    pub fn machines(&self) -> Vec<String> {
        names_in(&self.data.join("machines"))
    }

    /// Host processes of all machines seen so far.
    pub fn processes(&self) -> Vec<u32> {
        self.seen_machines.lock().expect("no panic").iter().flat_map(|id| host::processes(id)).collect()
    }

    fn slots(&self) -> Vec<u16> {
        host::slots(&self.data.to_string_lossy())
    }

    /// A difference between the host's resources and what these rows need, if any.
    fn excess(&self, rows: &[Row]) -> Option<String> {
        self.observe();
        let rows = &[&self.prepared[..], rows].concat();
        let mut expected: Vec<&String> = rows.iter().map(|(id, _)| id).collect();
        expected.sort();
        let running: Vec<&String> =
            rows.iter().filter(|(_, status)| status == "running").map(|(id, _)| id).collect();
        let machines = self.machines();
        if machines.iter().collect::<Vec<_>>() != expected {
            return Some(format!("machines {machines:?}, computers {expected:?}"));
        }
        let data = self.data.to_string_lossy().into_owned();
        let left: Vec<String> = names_in(&self.data.join("runtime"));
        if left.iter().any(|name| !running.iter().any(|id| name.contains(*id))) {
            return Some(format!("the runtime's records {left:?} for {running:?}"));
        }
        let left: Vec<String> = names_in(&self.data.join("sockets"));
        if left.iter().any(|name| !running.contains(&name)) {
            return Some(format!("sockets for the controller {left:?} for {running:?}"));
        }
        let left: Vec<String> = names_in(&self.data.join("trash"));
        if !left.is_empty() {
            return Some(format!("trash holds {left:?}"));
        }
        if let Some(unexpected) = rows.iter().find_map(|row| self.unexpected_file(row)) {
            return Some(unexpected);
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
        let known = self.seen_machines.lock().expect("no panic").clone();
        if let Some(left) =
            known.iter().filter(|id| !running.contains(id)).find_map(|id| host::find_leftover(id))
        {
            return Some(left);
        }
        if let Some(dead) = running.iter().find(|id| host::processes(id).is_empty()) {
            return Some(format!("no process of {dead} runs"));
        }
        let exists =
            |(index, number): &&(PathBuf, String)| fs::read_to_string(index).is_ok_and(|now| now == *number);
        let interfaces = self.interfaces.lock().expect("no panic");
        let left: Vec<_> = interfaces.iter().filter(exists).collect();
        if left.len() > running.len() {
            return Some(format!("network interfaces {left:?} for {} computers", running.len()));
        }
        self.packet_rule_mismatch(running.len())
    }

    /// A file in a computer's folder that its status does not permit.
    fn unexpected_file(&self, (id, status): &Row) -> Option<String> {
        let folder = self.data.join("machines").join(id);
        let places = [folder.clone(), folder.join("bundle"), folder.join("snapshots")];
        let names: Vec<String> = places.iter().flat_map(|place| names_in(place)).collect();
        let unexpected = names.iter().find(|name| name.ends_with(".new") || *name == "memory.used");
        let describe = |name: &String| format!("{name} of {id}, which is {status}");
        unexpected.map(describe).or_else(|| {
            let saved = names.iter().any(|name| name == "memory");
            (saved != (status == "suspended"))
                .then(|| format!("saved memory: {saved}, of {id}, which is {status}"))
        })
    }

    /// A difference between the guests in the packet rules and the running computers, if the guests' network
    /// is not shared.
    fn packet_rule_mismatch(&self, running: usize) -> Option<String> {
        let subnet = self.subnet.as_ref()?;
        let listed =
            Command::new("nft").args(["list", "set", "inet", "hotdesk", "guests"]).output().expect("nft");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let known: Vec<&str> = listed
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|word| word.starts_with(subnet.as_str()))
            .collect();
        (known.len() != running).then(|| format!("the packet rules have {known:?} for {running} computers"))
    }

    /// Waits until the host's resources are exactly those of these running computers.
    pub async fn check_running(&self, computers: &[String]) {
        let rows: Vec<Row> = computers.iter().map(|id| (id.clone(), "running".to_owned())).collect();
        self.check(&rows, TIMEOUT).await;
    }

    /// Waits until the host's resources are exactly those of these rows.
    pub async fn check(&self, rows: &[Row], timeout: Duration) {
        let clean = wait::until(timeout, || async { self.excess(rows).is_none().then_some(()) });
        if clean.await.is_none()
            && let Some(reason) = self.excess(rows)
        {
            panic!("left on the host: {reason}");
        }
    }
}
