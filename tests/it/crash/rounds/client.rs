//! What does a client do to its computers? One thing after another at random, until its controller is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::desk::{Desk, Order};
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::RunningController;

/// Computers that one client has at most: more would only wait for each other's boots.
const MOST: usize = 2;
/// Longest pause between two requests.
const PAUSE_MS: u64 = 120;

/// What the computers of a house can do.
#[derive(Clone, Copy)]
pub struct Able {
    pub suspend: bool,
    pub clone_running: bool,
    /// How long a controller lives at most: the time of a boot or two.
    pub longest_ms: u64,
    /// Whether what is written is brought to the host's disk before it counts.
    pub sync: bool,
}

/// A computer that was asked for: what it may be now. `None` among it: it may not be there.
#[derive(Debug)]
pub struct Known {
    /// Not told where its making was never answered; then it is known by its name.
    pub id: Option<String>,
    pub perhaps: Vec<Option<Desk>>,
}

pub struct Client {
    number: usize,
    rng: StdRng,
    workspaces: Vec<String>,
    able: Able,
    made: u32,
    pub known: Vec<Known>,
    /// Files whose upload was acknowledged: id and content.
    pub files: Vec<(String, String)>,
    /// How often each verb was acknowledged, and how often its answer never came.
    pub tally: BTreeMap<&'static str, (u32, u32)>,
}

/// An answer, unless the controller went away first.
type Answer = Option<(u16, Value)>;

async fn ask(request: RequestBuilder) -> Answer {
    let answer = request.send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.json().await.ok()?))
}

impl Client {
    pub fn new(number: usize, seed: u64, workspaces: &[String], able: Able) -> Self {
        Self {
            number,
            rng: StdRng::seed_from_u64(seed.wrapping_add(number as u64)),
            workspaces: workspaces.to_vec(),
            able,
            made: 0,
            known: Vec::new(),
            files: Vec::new(),
            tally: BTreeMap::new(),
        }
    }

    /// Asks for one thing after another until no answer comes.
    pub async fn drive(mut self, house: (String, String)) -> Self {
        let caller = Caller::new(house.0, "/api", house.1);
        while self.step(&caller).await.is_some() {
            let pause = self.rng.random_range(0..PAUSE_MS);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        self
    }

    /// Sees to it that there is a computer to begin with: a boot takes longer than many a controller lives.
    pub async fn prepare(mut self, house: (String, String)) -> Self {
        let caller = Caller::new(house.0, "/api", house.1);
        if self.known.is_empty() {
            self.make(&caller, "create", None).await.expect("nobody is killed yet");
        }
        self
    }

    async fn step(&mut self, caller: &Caller) -> Option<()> {
        let room = self.known.len() < MOST;
        if self.known.is_empty() || room && self.rng.random_range(0..10) < 2 {
            return self.make(caller, "create", None).await;
        }
        let turn = self.rng.random_range(0..self.known.len());
        let desk = self.known[turn].perhaps[0].clone().expect("it is there");
        if self.rng.random_range(0..12) == 0 {
            return self.upload(caller).await;
        }
        let clonable = desk.status == "stopped" || desk.status == "running" && self.able.clone_running;
        if room && clonable && self.rng.random_range(0..8) == 0 {
            return self.make(caller, "clone", Some(turn)).await;
        }
        let order = self.choose(&desk);
        self.give(caller, turn, order).await
    }

    fn choose(&mut self, desk: &Desk) -> Order {
        let written = self.rng.random_range(1..1_000_000_u64);
        let write = Order::Write(written);
        let [cpu, ram, disk] = desk.size;
        let size = [
            [0.5, 1.0, 2.0][self.rng.random_range(0..3_usize)],
            if self.rng.random() { 4.0 } else { 8.0 },
            if self.rng.random() && disk < 30.0 { disk + 1.0 } else { disk },
        ];
        let resize = if size == [cpu, ram, disk] { write.clone() } else { Order::Resize(size) };
        let elsewhere = self.workspaces.iter().find(|id| **id != desk.workspace).expect("two").clone();
        let suspend = if self.able.suspend { Order::Suspend } else { write.clone() };
        let choices = match desk.status.as_str() {
            "running" => vec![
                (25, write),
                (12, Order::Stop),
                (12, Order::Restart),
                (22, suspend),
                (14, resize),
                (8, Order::Move(elsewhere)),
                (8, Order::Delete),
            ],
            "suspended" => vec![
                (40, Order::Resume),
                (12, Order::Start),
                (15, write),
                (8, Order::Stop),
                (5, Order::Restart),
                (8, Order::Move(elsewhere)),
                (8, Order::Delete),
            ],
            _ => vec![(60, Order::Start), (20, Order::Move(elsewhere)), (20, Order::Delete)],
        };
        let all: u32 = choices.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.rng.random_range(0..all);
        for (weight, order) in choices {
            if drawn < weight {
                return order;
            }
            drawn -= weight;
        }
        unreachable!("the weights add up")
    }

    /// What counts of an answer: a controller whose disk has no power any more says so until it is gone itself.
    fn heard(&self, answer: Answer) -> Answer {
        answer.filter(|(status, _)| !self.able.sync || *status < 500)
    }

    /// Notes what came of a request.
    fn count(&mut self, verb: &'static str, answer: &Answer) {
        let tally = self.tally.entry(verb).or_default();
        match answer {
            None => tally.1 += 1,
            Some((200..300, _)) => tally.0 += 1,
            Some(_) => {}
        }
    }

    /// Makes a computer, new or as the copy of one that it has.
    async fn make(&mut self, caller: &Caller, verb: &'static str, source: Option<usize>) -> Option<()> {
        self.made += 1;
        let name = format!("{verb} {} of {}", self.made, self.number);
        let workspace = self.workspaces[self.rng.random_range(0..self.workspaces.len())].clone();
        let fresh = |desk: &Desk| Desk {
            name: name.clone(),
            status: "running".to_owned(),
            mark: None,
            ..desk.clone()
        };
        let (request, likely) = match source {
            None => {
                let body = json!({"workspace_id": workspace, "name": name});
                let blank = Desk { size: [1.0, 4.0, 8.0], workspace, ..Desk::of(&Value::Null) };
                (caller.request(Method::POST, "/computers").json(&body), vec![fresh(&blank)])
            }
            Some(turn) => {
                let source = &self.known[turn];
                let path = format!("/computers/{}/clone", source.id.as_deref().expect("an id"));
                let likely = source.perhaps.iter().flatten().map(fresh).collect();
                (caller.request(Method::POST, &path).json(&json!({"name": name})), likely)
            }
        };
        let answer = self.heard(ask(request).await);
        self.count(verb, &answer);
        let likely = likely.into_iter().map(Some);
        match answer {
            None => {
                self.known.push(Known { id: None, perhaps: likely.chain([None]).collect() });
                None
            }
            Some((201, record)) => {
                self.known.push(Known { id: Some(id_of(&record)), perhaps: likely.collect() });
                Some(())
            }
            // Its source is on its way to another state.
            Some((400 | 409, _)) if source.is_some() => Some(()),
            Some((status, body)) => panic!("{verb}: {status} {body}"),
        }
    }

    async fn give(&mut self, caller: &Caller, turn: usize, order: Order) -> Option<()> {
        let id = self.known[turn].id.clone().expect("an id");
        let path = |verb: &str| format!("/computers/{id}/{verb}");
        let post = |verb: &str, body: Value| caller.request(Method::POST, &path(verb)).json(&body);
        let (verb, request) = match &order {
            Order::Write(text) => {
                let [file, folder] =
                    if self.able.sync { ["&& sync /root/n", "&& sync /root"] } else { [""; 2] };
                let command = format!(
                    "echo {text} >/root/n {file} && mv /root/n /root/note {folder} && echo {text} >/dev/shm/mark"
                );
                ("write", post("bash", json!({ "command": command })))
            }
            Order::Stop => ("stop", post("stop", json!({}))),
            Order::Start => ("start", post("start", json!({}))),
            Order::Restart => ("restart", post("restart", json!({}))),
            Order::Suspend => ("suspend", post("suspend", json!({}))),
            Order::Resume => ("resume", post("resume", json!({}))),
            Order::Resize([vcpus, ram, disk]) => {
                let body = json!({"vcpus": vcpus, "mem_gb": ram, "disk_size_gb": disk});
                ("resize", post("resize", body))
            }
            Order::Move(workspace) => {
                let body = json!({ "workspace_id": workspace });
                ("move", caller.request(Method::PATCH, &path("move")).json(&body))
            }
            Order::Delete => ("delete", caller.request(Method::DELETE, &format!("/computers/{id}"))),
        };
        let answer = self.heard(ask(request).await);
        self.count(verb, &answer);
        let known = &mut self.known[turn];
        let was = std::mem::take(&mut known.perhaps).into_iter().flatten();
        let unsure = |was: Desk| was.perhaps_after(&order);
        let resized = matches!(order, Order::Resize(_));
        let (perhaps, goes_on) = match &answer {
            None => (was.flat_map(unsure).collect(), false),
            Some((200..300, body)) => (was.map(|desk| desk.after(&order, body)).collect(), true),
            Some((422, body)) if resized => (was.map(|desk| desk.after(&order, body)).collect(), true),
            // It is on its way to another state.
            Some((409, _)) => (was.map(Some).collect(), true),
            Some((503, _)) => (was.flat_map(unsure).collect::<Vec<_>>(), true),
            Some((status, body)) => panic!("{verb}: {status} {body}"),
        };
        if let Some((200..300, body)) = answer.as_ref().filter(|_| verb == "write") {
            assert_eq!(body["exit_code"], 0, "{body}");
        }
        known.perhaps = perhaps;
        if known.perhaps.iter().all(Option::is_none) {
            self.known.remove(turn);
        }
        goes_on.then_some(())
    }

    async fn upload(&mut self, caller: &Caller) -> Option<()> {
        let content = format!("{:x}", self.rng.random::<u64>());
        // A workspace without computers would do too; what is delivered to one is not what is looked at.
        let form = reqwest::multipart::Form::new().text("projectId", self.workspaces[0].clone()).part(
            "file",
            reqwest::multipart::Part::text(content.clone()).file_name(format!("{content}.txt")),
        );
        let answer = self.heard(ask(caller.request(Method::POST, "/files/upload").multipart(form)).await);
        self.count("upload", &answer);
        let (status, body) = answer?;
        assert_eq!(status, 200, "{body}");
        self.files.push((id_of(&body["file"]), content));
        Some(())
    }

    /// Compares what is there with what may be there; takes out of `listed` what is its own.
    pub async fn judge(&mut self, house: &RunningController, listed: &mut Vec<Value>) {
        let mut kept = Vec::new();
        for mut known in std::mem::take(&mut self.known) {
            let name = known.perhaps.iter().flatten().map(|desk| desk.name.clone()).next().expect("a name");
            let found = listed.iter().position(|record| match &known.id {
                Some(id) => record["id"] == **id,
                None => record["name"] == name,
            });
            let Some(found) = found else {
                assert!(known.perhaps.contains(&None), "{name} is lost: {known:?}");
                continue;
            };
            let id = id_of(&listed.swap_remove(found));
            let seen = super::look::at(house, &id).await;
            let was = format!("{known:?}");
            known.perhaps.retain(|perhaps| perhaps.as_ref().is_some_and(|desk| desk.is(&seen)));
            assert!(!known.perhaps.is_empty(), "{seen:?} is none of {was}");
            known.id = Some(id);
            kept.push(known);
        }
        self.known = kept;
        for (id, content) in &self.files {
            let link = house.get(&format!("/files/download?id={id}")).await.body["url"].clone();
            let link = link.as_str().unwrap_or_else(|| panic!("the file {id} is lost"));
            let answer = house.client.get(link).send().await.expect("an answer");
            assert_eq!(answer.text().await.expect("a text"), *content, "the file {id}");
        }
    }

    /// What its computers may be after their host lost its power.
    pub fn lost_power(&mut self) {
        for known in &mut self.known {
            let was = std::mem::take(&mut known.perhaps);
            let of = |perhaps: Option<Desk>| match perhaps {
                None => vec![None],
                Some(desk) => desk.perhaps_after_a_power_cut().into_iter().map(Some).collect(),
            };
            known.perhaps = was.into_iter().flat_map(of).collect();
        }
    }
}
