//! Model of a computer's possible states.
//!
//! Acknowledged requests have taken effect, and unanswered ones may have.

use serde_json::Value;

/// A computer in a stable state.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputerModel {
    pub name: String,
    pub workspace: String,
    pub status: String,
    /// vCPUs, GB of RAM, GB of disk.
    pub size: [f64; 3],
    /// Last value that was written to its disk.
    pub note: Option<u64>,
    /// Last value that was written to its memory, until the memory is lost.
    pub mark: Option<u64>,
}

/// A request for an existing computer.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Writes this value to the disk and to memory.
    Write(u64),
    Stop,
    Start,
    Restart,
    Suspend,
    Resume,
    /// To this size, in the units of [`ComputerModel::size`].
    Resize([f64; 3]),
    /// To the workspace with this id.
    Move(String),
    Delete,
}

impl ComputerModel {
    /// Model of a record of the API, with unknown disk and memory contents.
    pub fn from_record(record: &Value) -> Self {
        let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| record[field].as_f64().unwrap_or_default();
        Self {
            name: text("name"),
            workspace: text("workspace_id"),
            status: text("status"),
            size: ["cpu", "ram", "disk_size_gb"].map(number),
            note: None,
            mark: None,
        }
    }

    /// Whether an observed computer matches this model. The contents of a computer that does not run are not
    /// compared.
    pub fn matches(&self, observed: &Self) -> bool {
        let external =
            |model: &Self| (model.name.clone(), model.workspace.clone(), model.status.clone(), model.size);
        let internal = |model: &Self| (model.note, model.mark);
        external(self) == external(observed)
            && (self.status != "running" || internal(self) == internal(observed))
    }

    fn booted(self) -> Self {
        Self { status: "running".to_owned(), mark: None, ..self }
    }

    fn with_status(self, status: &str) -> Self {
        Self { status: status.to_owned(), ..self }
    }

    /// State after a request with this answer; `None` after a removal.
    pub fn after(self, request: &Request, answer: &Value) -> Option<Self> {
        Some(match request {
            Request::Write(text) => {
                Self { note: Some(*text), mark: Some(*text), ..self }.with_status("running")
            }
            Request::Stop => Self { mark: None, ..self }.with_status("stopped"),
            Request::Start | Request::Resume if self.status == "suspended" => self.with_status("running"),
            Request::Start if self.status == "stopped" => self.booted(),
            Request::Start | Request::Resume => self,
            Request::Restart => self.booted(),
            Request::Suspend => self.with_status("suspended"),
            Request::Resize(_) => {
                let size =
                    ["vcpus", "mem_gb", "disk_size_gb"].map(|field| answer[field].as_f64().expect("a size"));
                let mark = self.mark.filter(|_| answer["restarted"] != true);
                Self { size, mark, ..self }
            }
            Request::Move(workspace) => Self { workspace: workspace.clone(), ..self },
            Request::Delete => return None,
        })
    }

    /// Possible states after a request without an answer.
    pub fn possible_after(self, request: &Request) -> Vec<Option<Self>> {
        let mut possible = vec![Some(self.clone())];
        match request {
            Request::Write(text) => {
                let written = self.clone().with_status("running");
                possible.push(Some(written.clone()));
                possible.push(Some(Self { note: Some(*text), ..written }));
                possible.push(self.after(request, &Value::Null));
            }
            Request::Resize(expected) => {
                for choice in 0..8_u8 {
                    let component =
                        |at: usize| if (choice >> at) & 1 == 1 { expected[at] } else { self.size[at] };
                    let resized = Self { size: [component(0), component(1), component(2)], ..self.clone() };
                    possible.push(Some(resized.clone().booted()));
                    possible.push(Some(resized));
                }
            }
            Request::Stop
            | Request::Start
            | Request::Restart
            | Request::Suspend
            | Request::Resume
            | Request::Move(_)
            | Request::Delete => {
                possible.push(self.after(request, &Value::Null));
            }
        }
        possible
    }

    /// Possible states after a power cut of the host: a running computer has ended, or a pending boot is
    /// repeated.
    pub fn possible_after_power_cut(self) -> Vec<Self> {
        if self.status != "running" {
            return vec![self];
        }
        vec![Self { mark: None, ..self.clone() }.with_status("stopped"), self.booted()]
    }
}
