//! Every documented operation against every kind of key (A2, A7-A9, A13-A17, docs/authentication-rules.md).

mod invalid;
mod nobody;
mod other_accounts;
mod scoped;

use hotdesk::controller::config::Limits;
use hotdesk::domain::identity::access::Role;
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};

use super::cast::{add_account, add_key};
use super::ssh_keys::public_key;
use crate::harness::agent::fetch_json;
use crate::harness::browser::person;
use crate::harness::caller::id_of;
use crate::harness::simulation::Simulation;
use crate::openapi::{document, needs_key, operations};

/// Operations that concern no workspace. Every key may use them, and they answer by the caller's account or
/// scope.
const WITHOUT_WORKSPACE: [&str; 12] = [
    "GET /keys/ssh",
    "GET /stream/connections",
    "GET /templates/global",
    "GET /templates/global/{namespace}/{name}",
    "GET /user/profile",
    "GET /v1/models",
    "GET /v1/models/{model}",
    "GET /workspaces",
    "POST /keys/ssh",
    "POST /templates/run",
    "POST /templates/validate",
    "POST /workspaces",
];
/// Path prefixes of operations that concern the account alone. Scoped keys may not use them.
const ACCOUNT_ONLY: [&str; 12] = [
    "/account/capacity",
    "/account/webhook-secret",
    "/agent-accounts/claim-link",
    "/keys/ssh/",
    "/operator/",
    "/templates/starred",
    "/templates/{id}/star",
    "/templates/{namespace}",
    "/user/sessions",
    "/user/sign-in-links",
    "/user/subscription",
    "/v1/accounts",
];
/// Methods that a client may send to the proxy path and to ports.
const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// Whether an operation concerns the account alone.
fn is_account_only(operation: &Operation) -> bool {
    operation.path == "/templates" || ACCOUNT_ONLY.iter().any(|path| operation.path.starts_with(path))
}

/// A controller with a computer and a file in workspace `home`, an empty workspace `away`, and a second
/// account.
struct Scene {
    controller: Simulation,
    document: Value,
    home: String,
    away: String,
    computer: String,
    file: String,
    /// The record of a key to `home`.
    key: String,
    /// A chat thread of the computer.
    thread: String,
    /// The record of an SSH key of the account.
    ssh_key: String,
    /// Text of a key that is scoped to `away`.
    scoped: String,
    /// Text of a key of the second account.
    foreign: String,
    /// Text of a key of an account that is a viewer of `home`.
    viewer: String,
}

impl Scene {
    async fn new() -> Self {
        // The tests send hundreds of wrong keys; another test covers their limit.
        let limits = Limits { wrong_keys_per_minute: u32::MAX, request_burst: 10_000, ..Limits::default() };
        let controller = Simulation::boot_limited(limits).await;
        let home = controller.workspace("home").await;
        let away = controller.workspace("away").await;
        let computer = controller.computer(&home, "desk").await;
        let form = reqwest::multipart::Form::new()
            .text("projectId", home.clone())
            .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
        let stored = fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await;
        let file = stored.body["file"]["id"].as_str().expect("a file").to_owned();
        let connection =
            json!({"name": "home", "url": "rtmp://203.0.113.1/live", "key": "k", "workspace_id": home});
        controller.create("/stream/connections", connection).await;
        let secret = json!({"value": "left", "workspace_id": home});
        let set = controller.request(Method::PUT, "/secrets/HOME").json(&secret);
        assert_eq!(fetch_json(set).await.status, 200);
        let store = controller.store().await;
        let operator = store.operator_account().await.expect("the operator");
        let scoped = add_key(&store, operator, Some(&away)).await;
        let stranger = add_account(&store, "other@localhost").await;
        let foreign = add_key(&store, stranger, None).await;
        let viewer_account = person(&store, "viewer@localhost").await.id;
        store.set_member(home.parse().expect("an id"), viewer_account, Role::Viewer).await.expect("a member");
        let viewer = add_key(&store, viewer_account, None).await;
        let thread = controller.create("/chat/threads", json!({"desktopId": computer})).await;
        let thread = thread["remoteId"].as_str().expect("an id").to_owned();
        let key = id_of(&controller.create("/keys", json!({"name": "home", "workspace_id": home})).await);
        let ssh_key = id_of(&controller.create("/keys/ssh", json!({"public_key": public_key(1)})).await);
        Self {
            controller,
            document: document(),
            home,
            away,
            computer,
            file,
            key,
            thread,
            ssh_key,
            scoped,
            foreign,
            viewer,
        }
    }

    /// Every operation that needs a key. The document lists neither the proxy path nor ports, so this adds both once
    /// per method.
    fn guarded_operations(&self) -> Vec<Operation> {
        let documented =
            operations(&self.document).into_iter().filter(|(_, _, definition)| needs_key(definition));
        let mut all: Vec<Operation> =
            documented.map(|(method, path, definition)| Operation { method, path, definition }).collect();
        all.extend(METHODS.map(|method| Operation {
            method,
            path: "/desktops/{id}/proxy/bash".to_owned(),
            definition: json!({"parameters": []}),
        }));
        all.extend(METHODS.map(|method| Operation {
            method,
            path: "/computers/{id}/ports/{port}/page".to_owned(),
            definition: json!({"parameters": []}),
        }));
        all.push(Operation {
            method: Method::GET,
            path: "/computers/{id}/tcp/{port}".to_owned(),
            definition: json!({"parameters": []}),
        });
        all
    }

    /// A valid request for an operation on `home`, its computer and its file. The second value is whether the
    /// operation concerns a workspace.
    fn request(&self, operation: &Operation) -> (RequestBuilder, bool) {
        self.request_naming(operation, &self.computer)
    }

    /// Like [`Self::request`], with a given handle of the computer.
    fn request_naming(&self, operation: &Operation, computer: &str) -> (RequestBuilder, bool) {
        let mut targeted = false;
        let mut path = String::new();
        for part in operation.path.split('/').skip(1) {
            let value = match part {
                "{id}" if operation.path.starts_with("/workspaces") => &self.home,
                "{id}" if operation.path.starts_with("/keys") => &self.key,
                "{id}" if operation.path.starts_with("/chat/threads") => &self.thread,
                "{id}" => computer,
                "{ssh_key_id}" => &self.ssh_key,
                "{name}" if operation.path.starts_with("/secrets") => "HOME",
                "{name}" => "home",
                "{port}" => "3000",
                "{screen_id}" => "default",
                "{process_id}" | "{session_name}" | "{recording_id}" | "{service}" | "{trigger}" => "any",
                "{entry_id}" => "1",
                "{upload_id}" | "{snapshot_id}" => "00000000-0000-4000-8000-000000000000",
                // Clients belong to their operator; clients_api tests that scoped keys cannot reach them.
                "{client_id}" => "00000000-0000-4000-8000-000000000000",
                // Sessions belong to their account; people::sessions tests that others cannot reach them.
                "{session_id}" => "00000000-0000-4000-8000-000000000000",
                // Templates belong to their account; templates::accounts tests that others cannot reach them.
                "{namespace}" => "default",
                "{version}" => "1.0.0",
                // Every account has the same models.
                "{model}" => "claude-sonnet-4.6",
                "{window_id}" => "0x1400003",
                "{element_id}" => "e-000000000000",
                plain => plain,
            };
            assert!(!value.starts_with('{'), "{operation:?}: no value for {value}");
            // Routes of the operator name things of all accounts; operator_host and hosts test that others cannot use them.
            let is_own = operation.path.starts_with("/templates")
                || operation.path.starts_with("/operator/")
                || ["{client_id}", "{session_id}", "{model}"].contains(&part);
            targeted |= value != part && !is_own;
            path = format!("{path}/{value}");
        }
        let empty = Vec::new();
        let parameters = operation.definition["parameters"].as_array().unwrap_or(&empty);
        let query: Vec<(&str, &str)> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "query")
            .filter_map(|parameter| parameter["name"].as_str())
            .filter_map(|name| match (operation.path.as_str(), name) {
                ("/templates/run", "id") => Some((name, computer)),
                _ => self.reference_value(name).map(|value| (name, value)),
            })
            .collect();
        // The file's id and the filters of a list name a target too.
        targeted |= !query.is_empty();
        let request = self.controller.bare(operation.method.clone(), &format!("/api{path}")).query(&query);
        let content = &operation.definition["requestBody"]["content"];
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
        targeted |= body
            .as_object()
            .is_some_and(|fields| fields.keys().any(|name| self.reference_value(name).is_some()));
        (request.json(&body), targeted)
    }

    /// The id or name that a field of this name refers to.
    fn reference_value(&self, name: &str) -> Option<&str> {
        match name {
            "id" => Some(&self.file),
            "workspace_id" | "projectId" => Some(&self.home),
            "desktopId" | "computer_id" => Some(&self.computer),
            _ => None,
        }
    }

    /// A sample value of a schema: its required properties and every reference.
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
                    match self.reference_value(name) {
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
            "null" => Value::Null,
            other => panic!("no sample for the type {other}"),
        }
    }
}

/// The fields of an error. Chat completions have them in `error`, with the text as `message`
/// (docs/api/chat.md#errors).
fn error_fields(body: &Value) -> Value {
    let Some(inner) = body["error"].as_object() else { return body.clone() };
    let mut fields = inner.clone();
    fields.remove("type");
    let text = fields.remove("message").expect("a text");
    fields.insert("error".to_owned(), text);
    Value::Object(fields)
}

#[derive(Debug)]
struct Operation {
    method: Method,
    path: String,
    definition: Value,
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}
