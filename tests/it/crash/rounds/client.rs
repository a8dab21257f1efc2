//! A client that changes its computers at random until its controller is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::model::{ComputerModel, Request};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::RunningController;

/// Maximum number of computers of one client: more would only wait for each other's boots.
const MAX_COMPUTERS: usize = 2;
/// Longest pause between two requests.
const PAUSE_MS: u64 = 120;

/// What the computers of a controller can do, and how a test treats it.
#[derive(Clone, Copy)]
pub struct Profile {
    pub suspend: bool,
    pub clone_running: bool,
    /// Longest life of a controller: the time of one or two boots.
    pub longest_ms: u64,
    /// Whether a write syncs to the host's disk before it counts.
    pub sync: bool,
}

/// A requested computer and its possible states. `None` among them means that it may not exist.
#[derive(Debug)]
pub struct TrackedComputer {
    /// Absent if its create was never answered; then only its name is known.
    pub id: Option<String>,
    pub possible: Vec<Option<ComputerModel>>,
}

pub struct Client {
    number: usize,
    rng: StdRng,
    workspaces: Vec<String>,
    profile: Profile,
    created: u32,
    pub tracked: Vec<TrackedComputer>,
    /// Files whose upload was acknowledged: id and content.
    pub files: Vec<(String, String)>,
    /// Number of acknowledged and of unanswered requests by verb.
    pub counts: BTreeMap<&'static str, (u32, u32)>,
}

/// An answer, unless the controller died first.
type Answer = Option<(u16, Value)>;

async fn send_request(request: RequestBuilder) -> Answer {
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.json().await.ok()?))
}

impl Client {
    pub fn new(number: usize, seed: u64, workspaces: &[String], profile: Profile) -> Self {
        Self {
            number,
            rng: StdRng::seed_from_u64(seed.wrapping_add(number as u64)),
            workspaces: workspaces.to_vec(),
            profile,
            created: 0,
            tracked: Vec::new(),
            files: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Sends one request after another until an answer is missing.
    pub async fn drive(mut self, controller: (String, String)) -> Self {
        let caller = Caller::new(controller.0, "/api", controller.1);
        while self.step(&caller).await.is_some() {
            let pause = self.rng.random_range(0..PAUSE_MS);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self
    }

    /// Ensures that there is a computer at the start, because a boot takes longer than the life of many a
    /// controller.
    pub async fn prepare(mut self, controller: (String, String)) -> Self {
        let caller = Caller::new(controller.0, "/api", controller.1);
        if self.tracked.is_empty() {
            self.create(&caller, "create", None).await.expect("the controller lives");
        }
        self
    }

    async fn step(&mut self, caller: &Caller) -> Option<()> {
        let below_limit = self.tracked.len() < MAX_COMPUTERS;
        if self.tracked.is_empty() || below_limit && self.rng.random_range(0..10) < 2 {
            return self.create(caller, "create", None).await;
        }
        let turn = self.rng.random_range(0..self.tracked.len());
        let model = self.tracked[turn].possible[0].clone().expect("the computer may not be missing");
        if self.rng.random_range(0..12) == 0 {
            return self.upload(caller).await;
        }
        let clonable = model.status == "stopped" || model.status == "running" && self.profile.clone_running;
        if below_limit && clonable && self.rng.random_range(0..8) == 0 {
            return self.create(caller, "clone", Some(turn)).await;
        }
        let operation = self.choose(&model);
        self.perform(caller, turn, operation).await
    }

    fn choose(&mut self, model: &ComputerModel) -> Request {
        let written = self.rng.random_range(1..1_000_000_u64);
        let write = Request::Write(written);
        let [cpu, ram, disk] = model.size;
        let size = [
            [0.5, 1.0, 2.0][self.rng.random_range(0..3_usize)],
            if self.rng.random() { 4.0 } else { 8.0 },
            if self.rng.random() && disk < 30.0 { disk + 1.0 } else { disk },
        ];
        let resize = if size == [cpu, ram, disk] { write.clone() } else { Request::Resize(size) };
        let other_workspace = self.workspaces.iter().find(|id| **id != model.workspace).expect("two").clone();
        let suspend = if self.profile.suspend { Request::Suspend } else { write.clone() };
        let choices = match model.status.as_str() {
            "running" => vec![
                (25, write),
                (12, Request::Stop),
                (12, Request::Restart),
                (22, suspend),
                (14, resize),
                (8, Request::Move(other_workspace)),
                (8, Request::Delete),
            ],
            "suspended" => vec![
                (40, Request::Resume),
                (12, Request::Start),
                (15, write),
                (8, Request::Stop),
                (5, Request::Restart),
                (8, Request::Move(other_workspace)),
                (8, Request::Delete),
            ],
            _ => vec![(60, Request::Start), (20, Request::Move(other_workspace)), (20, Request::Delete)],
        };
        let all: u32 = choices.iter().map(|(weight, _)| weight).sum();
        let mut remaining = self.rng.random_range(0..all);
        for (weight, operation) in choices {
            if remaining < weight {
                return operation;
            }
            remaining -= weight;
        }
        unreachable!("the weights add up")
    }

    /// Drops answers that do not count: a controller whose disk has lost power reports errors until its own
    /// end.
    fn trusted(&self, answer: Answer) -> Answer {
        // Commands of computers on that disk fail too.
        let has_failed = |body: &Value| body["exit_code"].as_i64().is_some_and(|code| code != 0);
        answer.filter(|(status, body)| !self.profile.sync || *status < 500 && !has_failed(body))
    }

    /// Counts the result of a request.
    fn count(&mut self, verb: &'static str, answer: &Answer) {
        let counts = self.counts.entry(verb).or_default();
        match answer {
            None => counts.1 += 1,
            Some((200..300, _)) => counts.0 += 1,
            Some(_) => {}
        }
    }

    /// Creates a computer, new or as a clone of one of the client's own.
    async fn create(&mut self, caller: &Caller, verb: &'static str, source: Option<usize>) -> Option<()> {
        self.created += 1;
        let name = format!("{verb} {} of {}", self.created, self.number);
        let workspace = self.workspaces[self.rng.random_range(0..self.workspaces.len())].clone();
        let fresh = |model: &ComputerModel| ComputerModel {
            name: name.clone(),
            status: "running".to_owned(),
            mark: None,
            ..model.clone()
        };
        let (request, likely) = match source {
            None => {
                let body = json!({"workspace_id": workspace, "name": name});
                let blank = ComputerModel {
                    size: [1.0, 4.0, 8.0],
                    workspace,
                    ..ComputerModel::from_record(&Value::Null)
                };
                (caller.request(Method::POST, "/computers").json(&body), vec![fresh(&blank)])
            }
            Some(turn) => {
                let source = &self.tracked[turn];
                let path = format!("/computers/{}/clone", source.id.as_deref().expect("an id"));
                let likely = source.possible.iter().flatten().map(fresh).collect();
                (caller.request(Method::POST, &path).json(&json!({"name": name})), likely)
            }
        };
        let answer = self.trusted(send_request(request).await);
        self.count(verb, &answer);
        let likely = likely.into_iter().map(Some);
        match answer {
            None => {
                self.tracked.push(TrackedComputer { id: None, possible: likely.chain([None]).collect() });
                None
            }
            Some((201, record)) => {
                self.tracked.push(TrackedComputer { id: Some(id_of(&record)), possible: likely.collect() });
                Some(())
            }
            // The source is changing its state.
            Some((400 | 409, _)) if source.is_some() => Some(()),
            Some((status, body)) => panic!("{verb}: {status} {body}"),
        }
    }

    async fn perform(&mut self, caller: &Caller, turn: usize, operation: Request) -> Option<()> {
        let id = self.tracked[turn].id.clone().expect("an id");
        let path = |verb: &str| format!("/computers/{id}/{verb}");
        let post = |verb: &str, body: Value| caller.request(Method::POST, &path(verb)).json(&body);
        let (verb, request) = match &operation {
            Request::Write(text) => {
                let [file, folder] =
                    if self.profile.sync { ["&& sync /root/n", "&& sync /root"] } else { [""; 2] };
                let command = format!(
                    "echo {text} >/root/n {file} && mv /root/n /root/note {folder} && echo {text} >/dev/shm/mark"
                );
                ("write", post("bash", json!({ "command": command })))
            }
            Request::Stop => ("stop", post("stop", json!({}))),
            Request::Start => ("start", post("start", json!({}))),
            Request::Restart => ("restart", post("restart", json!({}))),
            Request::Suspend => ("suspend", post("suspend", json!({}))),
            Request::Resume => ("resume", post("resume", json!({}))),
            Request::Resize([vcpus, ram, disk]) => {
                let body = json!({"vcpus": vcpus, "mem_gb": ram, "disk_size_gb": disk});
                ("resize", post("resize", body))
            }
            Request::Move(workspace) => {
                let body = json!({ "workspace_id": workspace });
                ("move", caller.request(Method::PATCH, &path("move")).json(&body))
            }
            Request::Delete => ("delete", caller.request(Method::DELETE, &format!("/computers/{id}"))),
        };
        let answer = self.trusted(send_request(request).await);
        self.count(verb, &answer);
        let tracked = &mut self.tracked[turn];
        let before = std::mem::take(&mut tracked.possible).into_iter().flatten();
        let possible_after = |before: ComputerModel| before.possible_after(&operation);
        let resized = matches!(operation, Request::Resize(_));
        let (possible, continues) = match &answer {
            None => (before.flat_map(possible_after).collect(), false),
            Some((200..300, body)) => (before.map(|model| model.after(&operation, body)).collect(), true),
            Some((422, body)) if resized => {
                (before.map(|model| model.after(&operation, body)).collect(), true)
            }
            // The computer is changing its state.
            Some((409, _)) => (before.map(Some).collect(), true),
            Some((503, _)) => (before.flat_map(possible_after).collect::<Vec<_>>(), true),
            Some((status, body)) => panic!("{verb}: {status} {body}"),
        };
        if let Some((200..300, body)) = answer.as_ref().filter(|_| verb == "write") {
            assert_eq!(body["exit_code"], 0, "{body}");
        }
        tracked.possible = possible;
        if tracked.possible.iter().all(Option::is_none) {
            self.tracked.remove(turn);
        }
        continues.then_some(())
    }

    async fn upload(&mut self, caller: &Caller) -> Option<()> {
        let content = format!("{:x}", self.rng.random::<u64>());
        // A workspace with computers would do too, but this test does not check the delivery of files.
        let form = reqwest::multipart::Form::new().text("projectId", self.workspaces[0].clone()).part(
            "file",
            reqwest::multipart::Part::text(content.clone()).file_name(format!("{content}.txt")),
        );
        let answer =
            self.trusted(send_request(caller.request(Method::POST, "/files/upload").multipart(form)).await);
        self.count("upload", &answer);
        let (status, body) = answer?;
        assert_eq!(status, 200, "{body}");
        self.files.push((id_of(&body["file"]), content));
        Some(())
    }

    /// Compares the records with the possible states, and removes the client's own records from `listed`.
    pub async fn verify(&mut self, controller: &RunningController, listed: &mut Vec<Value>) {
        let mut remaining_computers = Vec::new();
        for mut tracked in std::mem::take(&mut self.tracked) {
            let name =
                tracked.possible.iter().flatten().map(|model| model.name.clone()).next().expect("a name");
            let found = listed.iter().position(|record| match &tracked.id {
                Some(id) => record["id"] == **id,
                None => record["name"] == name,
            });
            let Some(found) = found else {
                assert!(tracked.possible.contains(&None), "{name} is lost: {tracked:?}");
                continue;
            };
            let id = id_of(&listed.swap_remove(found));
            let observed = super::look::read(controller, &id).await;
            let before = format!("{tracked:?}");
            tracked
                .possible
                .retain(|possible| possible.as_ref().is_some_and(|model| model.matches(&observed)));
            assert!(!tracked.possible.is_empty(), "{observed:?} is none of {before}");
            tracked.id = Some(id);
            remaining_computers.push(tracked);
        }
        self.tracked = remaining_computers;
        for (id, content) in &self.files {
            let link = controller.get(&format!("/files/download?id={id}")).await.body["url"].clone();
            let link = link.as_str().unwrap_or_else(|| panic!("the file {id} is lost"));
            let answer = controller.client.get(link).send().await.expect("an answer");
            assert_eq!(answer.text().await.expect("a text"), *content, "the file {id}");
        }
    }

    /// Replaces the possible states by those after a power cut of the host.
    pub fn apply_power_cut(&mut self) {
        for tracked in &mut self.tracked {
            let before = std::mem::take(&mut tracked.possible);
            let of = |possible: Option<ComputerModel>| match possible {
                None => vec![None],
                Some(model) => model.possible_after_power_cut().into_iter().map(Some).collect(),
            };
            tracked.possible = before.into_iter().flat_map(of).collect();
        }
    }
}
