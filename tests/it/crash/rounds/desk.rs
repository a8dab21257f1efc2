//! What may a computer be, as far as its client was told? What was acknowledged is so; what was asked for and never
//! answered has happened or has not.

use serde_json::Value;

/// A computer at rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Desk {
    pub name: String,
    pub workspace: String,
    pub status: String,
    /// vCPUs, GB of RAM, GB of disk.
    pub size: [f64; 3],
    /// What its disk was given last.
    pub note: Option<u64>,
    /// What its memory was given last, while that lives.
    pub mark: Option<u64>,
}

/// What a client asks of a computer that it has.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Keep this on the disk and in memory.
    Write(u64),
    Stop,
    Start,
    Restart,
    Suspend,
    Resume,
    /// To this size.
    Resize([f64; 3]),
    /// To this workspace.
    Move(String),
    Delete,
}

impl Desk {
    /// A record of the API, with what is in the computer yet unknown.
    pub fn of(record: &Value) -> Self {
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

    /// Whether what was seen of a computer is this. What is in one that does not run cannot be seen.
    pub fn is(&self, seen: &Self) -> bool {
        let outside =
            |desk: &Self| (desk.name.clone(), desk.workspace.clone(), desk.status.clone(), desk.size);
        let inside = |desk: &Self| (desk.note, desk.mark);
        outside(self) == outside(seen) && (self.status != "running" || inside(self) == inside(seen))
    }

    fn booted(self) -> Self {
        Self { status: "running".to_owned(), mark: None, ..self }
    }

    fn with_status(self, status: &str) -> Self {
        Self { status: status.to_owned(), ..self }
    }

    /// What it is once an order was acknowledged with this answer; `None` when it is gone.
    pub fn after(self, order: &Order, answer: &Value) -> Option<Self> {
        Some(match order {
            Order::Write(text) => {
                Self { note: Some(*text), mark: Some(*text), ..self }.with_status("running")
            }
            Order::Stop => Self { mark: None, ..self }.with_status("stopped"),
            Order::Start | Order::Resume if self.status == "suspended" => self.with_status("running"),
            Order::Start if self.status == "stopped" => self.booted(),
            Order::Start | Order::Resume => self,
            Order::Restart => self.booted(),
            Order::Suspend => self.with_status("suspended"),
            Order::Resize(_) => {
                let size =
                    ["vcpus", "mem_gb", "disk_size_gb"].map(|field| answer[field].as_f64().expect("a size"));
                let mark = self.mark.filter(|_| answer["restarted"] != true);
                Self { size, mark, ..self }
            }
            Order::Move(workspace) => Self { workspace: workspace.clone(), ..self },
            Order::Delete => return None,
        })
    }

    /// What it may be after an order that was never answered.
    pub fn perhaps_after(self, order: &Order) -> Vec<Option<Self>> {
        let mut found = vec![Some(self.clone())];
        match order {
            Order::Write(text) => {
                let written = self.clone().with_status("running");
                found.push(Some(written.clone()));
                found.push(Some(Self { note: Some(*text), ..written }));
                found.push(self.after(order, &Value::Null));
            }
            Order::Resize(wanted) => {
                for choice in 0..8_u8 {
                    let pick = |at: usize| if (choice >> at) & 1 == 1 { wanted[at] } else { self.size[at] };
                    let resized = Self { size: [pick(0), pick(1), pick(2)], ..self.clone() };
                    found.push(Some(resized.clone().booted()));
                    found.push(Some(resized));
                }
            }
            Order::Stop
            | Order::Start
            | Order::Restart
            | Order::Suspend
            | Order::Resume
            | Order::Move(_)
            | Order::Delete => {
                found.push(self.after(order, &Value::Null));
            }
        }
        found
    }

    /// What it may be when its host lost its power: what ran is at its end, what was on its way up comes up again.
    pub fn perhaps_after_a_power_cut(self) -> Vec<Self> {
        if self.status != "running" {
            return vec![self];
        }
        vec![Self { mark: None, ..self.clone() }.with_status("stopped"), self.booted()]
    }
}
