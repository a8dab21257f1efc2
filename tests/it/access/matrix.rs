//! Who may do what: every documented operation against every kind of key (access.md A2, A7-A9, A13-A17).

mod nobody;
mod others;
mod scoped;

use hotdesk::controller::config::Limits;
use hotdesk::domain::access::Role;
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};

use super::cast::{add_account, add_key};
use crate::harness::agent::answered;
use crate::harness::browser::person;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;
use crate::openapi::{document, operations};

/// What is about no workspace, and so is every key's: it answers by the caller's own account or scope.
const OF_THE_ACCOUNT: [&str; 4] =
    ["GET /stream/connections", "GET /user/profile", "GET /workspaces", "POST /workspaces"];
/// What concerns the account alone, by the beginning of its path: no scoped key's.
const BEYOND_SCOPES: [&str; 4] =
    ["/account/capacity", "/agent-accounts/claim-link", "/user/subscription", "/v1/accounts"];
/// Methods that a client may send to the proxy path.
const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// A house with a computer and a file in workspace `home`, an empty workspace `away`, and a second account.
struct Scene {
    house: Simulation,
    document: Value,
    home: String,
    away: String,
    computer: String,
    file: String,
    /// The record of a key to `home`.
    key: String,
    /// Reaches `away` only.
    scoped: String,
    /// Belongs to the second account.
    foreign: String,
    /// Belongs to an account that may view `home`.
    viewer: String,
}

impl Scene {
    async fn set() -> Self {
        // Wrong keys by the hundred: how many of them a source may send is another test's.
        let limits = Limits { wrong_keys_per_minute: u32::MAX, request_burst: 10_000, ..Limits::default() };
        let house = Simulation::boot_limited(limits).await;
        let home = house.workspace("home").await;
        let away = house.workspace("away").await;
        let computer = house.computer(&home, "desk").await;
        let form = reqwest::multipart::Form::new()
            .text("projectId", home.clone())
            .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
        let stored = answered(house.request(Method::POST, "/files/upload").multipart(form)).await;
        let file = stored.body["file"]["id"].as_str().expect("a file").to_owned();
        let connection =
            json!({"name": "home", "url": "rtmp://203.0.113.1/live", "key": "k", "workspace_id": home});
        house.made("/stream/connections", connection).await;
        let store = house.store().await;
        let operator = store.operator().await.expect("the operator");
        let scoped = add_key(&store, operator, Some(&away)).await;
        let stranger = add_account(&store, "other@localhost").await;
        let foreign = add_key(&store, stranger, None).await;
        let watcher = person(&store, "viewer@localhost").await.id;
        store.set_member(home.parse().expect("an id"), watcher, Role::Viewer).await.expect("a member");
        let viewer = add_key(&store, watcher, None).await;
        let key = id_of(&house.made("/keys", json!({"name": "home", "workspace_id": home})).await);
        Self { house, document: document(), home, away, computer, file, key, scoped, foreign, viewer }
    }

    /// Every operation that needs a key; the proxy path, which is no operation of the document, is one more with each
    /// method.
    fn guarded(&self) -> Vec<Operation> {
        let documented =
            operations(&self.document).into_iter().filter(|(_, _, said)| said["security"].is_array());
        let mut all: Vec<Operation> =
            documented.map(|(method, path, said)| Operation { method, path, said }).collect();
        all.extend(METHODS.map(|method| Operation {
            method,
            path: "/desktops/{id}/proxy/bash".to_owned(),
            said: json!({"parameters": []}),
        }));
        all
    }

    /// A sound request for an operation on `home`, its computer and its file; `None` in the second place when it is
    /// about no workspace.
    fn request(&self, operation: &Operation) -> (RequestBuilder, bool) {
        self.request_naming(operation, &self.computer)
    }

    /// As [`Self::request`], with a handle of the computer's.
    fn request_naming(&self, operation: &Operation, computer: &str) -> (RequestBuilder, bool) {
        let mut targeted = false;
        let mut path = String::new();
        for part in operation.path.split('/').skip(1) {
            let value = match part {
                "{id}" if operation.path.starts_with("/workspaces") => &self.home,
                "{id}" if operation.path.starts_with("/keys") => &self.key,
                "{id}" => computer,
                "{name}" => "home",
                "{screen_id}" => "default",
                "{process_id}" | "{session_name}" | "{recording_id}" => "any",
                "{upload_id}" | "{snapshot_id}" => "00000000-0000-4000-8000-000000000000",
                // A client is its operator's; that scoped keys are kept from it, clients_api proves.
                "{client_id}" => "00000000-0000-4000-8000-000000000000",
                "{window_id}" => "0x1400003",
                "{element_id}" => "e-000000000000",
                plain => plain,
            };
            assert!(!value.starts_with('{'), "{operation:?}: what is {value}?");
            targeted |= value != part && part != "{client_id}";
            path = format!("{path}/{value}");
        }
        let empty = Vec::new();
        let parameters = operation.said["parameters"].as_array().unwrap_or(&empty);
        let query: Vec<(&str, &str)> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "query")
            .filter_map(|parameter| parameter["name"].as_str())
            .filter_map(|name| self.known(name).map(|value| (name, value)))
            .collect();
        // The file's id is the one that names something to touch; a list's filters name one too.
        targeted |= !query.is_empty();
        let request = self.house.bare(operation.method.clone(), &format!("/api{path}")).query(&query);
        let content = &operation.said["requestBody"]["content"];
        if content["multipart/form-data"].is_object() {
            let form = reqwest::multipart::Form::new()
                .text("projectId", self.home.clone())
                .part("file", reqwest::multipart::Part::text("hi").file_name("b.txt"));
            return (request.multipart(form), true);
        }
        let schema = &content["application/json"]["schema"];
        if schema.is_null() {
            return (request, targeted);
        }
        let body = self.sample(schema);
        targeted |=
            body.as_object().is_some_and(|fields| fields.keys().any(|name| self.known(name).is_some()));
        (request.json(&body), targeted)
    }

    /// What a field of this name refers to.
    fn known(&self, name: &str) -> Option<&str> {
        match name {
            "id" => Some(&self.file),
            "workspace_id" | "projectId" => Some(&self.home),
            "desktopId" | "computer_id" => Some(&self.computer),
            _ => None,
        }
    }

    /// A value that a schema takes: what is required, and every reference.
    fn sample(&self, schema: &Value) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let pointer = reference.trim_start_matches('#');
            return self.sample(self.document.pointer(pointer).expect("a schema of the document"));
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let sample = |part| self.sample(part).as_object().cloned().expect("a part that is an object");
            return Value::Object(parts.iter().flat_map(sample).collect());
        }
        if schema["oneOf"].is_array() {
            return self.sample(&schema["oneOf"][0]);
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[0].clone();
        }
        let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("object");
        match kind {
            "object" => {
                let mut fields = Map::new();
                for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                    let required =
                        schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
                    match self.known(name) {
                        Some(value) => drop(fields.insert(name.clone(), json!(value))),
                        None if required => drop(fields.insert(name.clone(), self.sample(field))),
                        None => {}
                    }
                }
                Value::Object(fields)
            }
            "string" => json!("left"),
            "number" | "integer" => json!(1),
            "boolean" => json!(true),
            "array" => json!([]),
            other => panic!("a sample of {other}?"),
        }
    }
}

#[derive(Debug)]
struct Operation {
    method: Method,
    path: String,
    said: Value,
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}
