//! Who may do what: every documented operation against every kind of key (access.md A2, A7-A9, A13-A16).

use hotdesk::base::ids::{AccountId, WorkspaceId};
use hotdesk::base::secret::Secret;
use hotdesk::controller::auth::keys;
use hotdesk::store::accounts::NewKey;
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};

use crate::harness::agent::answered;
use crate::harness::simulation::Simulation;
use crate::openapi::{document, operations};

/// A house with a computer and a file in workspace `home`, an empty workspace `away`, and a second account.
struct Scene {
    house: Simulation,
    document: Value,
    home: String,
    away: String,
    computer: String,
    file: String,
    /// Reaches `away` only.
    scoped: String,
    /// Belongs to the second account.
    foreign: String,
}

impl Scene {
    async fn set() -> Self {
        let house = Simulation::boot().await;
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
        let scoped = add_key(&house, operator, Some(&away)).await;
        let stranger = second_account(&house).await;
        let foreign = add_key(&house, stranger, None).await;
        Self { house, document: document(), home, away, computer, file, scoped, foreign }
    }

    /// Every operation that needs a key; the proxy path, which is no operation of the document, is one more.
    fn guarded(&self) -> Vec<Operation> {
        let documented =
            operations(&self.document).into_iter().filter(|(_, _, said)| said["security"].is_array());
        let mut all: Vec<Operation> =
            documented.map(|(method, path, said)| Operation { method, path, said }).collect();
        let proxy = Operation {
            method: Method::GET,
            path: "/desktops/{id}/proxy/health".to_owned(),
            said: json!({"parameters": []}),
        };
        all.push(proxy);
        all
    }

    /// A sound request for an operation on `home`, its computer and its file; `None` in the second place when it is
    /// about no workspace.
    fn request(&self, operation: &Operation) -> (RequestBuilder, bool) {
        let mut targeted = false;
        let mut path = String::new();
        for part in operation.path.split('/').skip(1) {
            let value = match part {
                "{id}" if operation.path.starts_with("/workspaces") => &self.home,
                "{id}" => &self.computer,
                "{name}" => "home",
                "{screen_id}" => "default",
                "{process_id}" | "{session_name}" | "{recording_id}" => "any",
                "{upload_id}" | "{snapshot_id}" => "00000000-0000-4000-8000-000000000000",
                "{window_id}" => "0x1400003",
                "{element_id}" => "e-000000000000",
                plain => plain,
            };
            assert!(!value.starts_with('{'), "{operation:?}: what is {value}?");
            targeted |= value != part;
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

async fn add_key(house: &Simulation, account: AccountId, workspace: Option<&String>) -> String {
    let text = keys::fresh();
    let workspace = workspace.map(|id| id.parse::<WorkspaceId>().expect("an id"));
    let digest = keys::digest(text.reveal());
    let key = NewKey { account, workspace, name: "test", digest: &digest, last_four: keys::last_four(&text) };
    house.store().await.add_key(&key).await.expect("the key is stored");
    text.reveal().to_owned()
}

/// There is no way yet to make one through the API.
async fn second_account(house: &Simulation) -> AccountId {
    sqlx::any::install_default_drivers();
    let pool = sqlx::AnyPool::connect(&format!("sqlite://{}", house.store_file().display()))
        .await
        .expect("the store");
    let account = AccountId::random();
    let inserted =
        sqlx::query("INSERT INTO accounts (id, email, created_at) VALUES ($1, 'other@localhost', 1)")
            .bind(account.to_string())
            .execute(&pool);
    inserted.await.expect("a second account");
    account
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_a8_a9_no_operation_answers_without_one_known_key() {
    let scene = Scene::set().await;
    let unknown = format!("Bearer {}", keys::fresh().reveal());
    let real = format!("Bearer {}", scene.house.key());
    let mistyped = format!("Bearer {}x", scene.house.key());
    let cases: [(&[&str], &str); 9] = [
        (&[], "Missing API key"),
        (&[&unknown], "Invalid API key"),
        (&[&mistyped], "Invalid API key"),
        (&["Bearer sk_live_"], "Invalid API key"),
        (&["Bearer"], "Invalid API key"),
        (&["Basic c2tfbGl2ZV8="], "Invalid API key"),
        (&[scene.house.key()], "Invalid API key"),
        (&[&real, &real], "Invalid API key"),
        (&[&real, &unknown], "Invalid API key"),
    ];
    for operation in scene.guarded() {
        for (headers, sentence) in cases {
            let (mut request, _) = scene.request(&operation);
            for header in headers {
                request = request.header("authorization", *header);
            }
            let response = request.send().await.expect("an answer");
            // interface.md, errors of suspend.
            let own = headers.is_empty() && operation.path.ends_with("/suspend");
            let sentence = if own { "Authentication required" } else { sentence };
            let name = format!("{} with {} headers, {sentence}", operation.name(), headers.len());
            assert_eq!(response.status(), 401, "{name}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer", "{name}");
            let body: Value = response.json().await.expect("JSON");
            assert!(
                body["error"].as_str().is_some_and(|error| error.starts_with(sentence)),
                "{name}: {body}"
            );
            assert!(body["request_id"].is_string(), "{name}: {body}");
        }
    }
    // A key in any other place is no key (A7).
    let key = scene.house.key();
    let bare = || scene.house.bare(Method::GET, "/api/workspaces");
    for request in [
        bare().query(&[("api_key", key)]),
        bare().query(&[("access_token", key)]),
        bare().header("x-api-key", key),
        bare().header("cookie", format!("api_key={key}")),
        bare().header("proxy-authorization", format!("Bearer {key}")),
    ] {
        assert_eq!(answered(request).await.status, 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_a_scoped_key_is_refused_on_every_operation_elsewhere() {
    let scene = Scene::set().await;
    let mut refused = 0;
    for operation in scene.guarded() {
        let (request, targeted) = scene.request(&operation);
        if !targeted {
            continue;
        }
        let answer = answered(request.bearer_auth(&scene.scoped)).await;
        let name = format!("{}: {}", operation.name(), answer.body);
        assert_eq!(answer.status, 403, "{name}");
        assert_eq!(answer.body["code"], "workspace_scope_mismatch", "{name}");
        assert_eq!(answer.body["key_workspace_id"], scene.away.as_str(), "{name}");
        assert_eq!(answer.body["target_workspace_id"], scene.home.as_str(), "{name}");
        let error = answer.body["error"].as_str().expect("a sentence");
        assert!(error.contains("\"away\"") && error.contains("\"home\""), "{name}");
        refused += 1;
    }
    assert!(refused > 25, "only {refused} operations have a target");
    // And nothing of it happened.
    assert_eq!(scene.house.status(&scene.computer).await, "running");
    assert_eq!(scene.house.get(&format!("/workspaces/{}", scene.home)).await.body["name"], "home");
    assert_eq!(
        scene.house.get(&format!("/files?projectId={}", scene.home)).await.body["files"][0]["id"],
        scene.file.as_str()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_scoped_key_sees_and_changes_its_own_workspace_only() {
    let scene = Scene::set().await;
    let ask = |method, path: &str| scene.house.request_with(&scene.scoped, method, path);
    let listed = answered(ask(Method::GET, "/workspaces")).await;
    assert_eq!(listed.body["workspaces"].as_array().map(Vec::len), Some(1), "{}", listed.body);
    assert_eq!(listed.body["workspaces"][0]["id"], scene.away.as_str());
    let computers = answered(ask(Method::GET, "/computers")).await;
    assert_eq!(
        (computers.status, &computers.body["computers"], &computers.body["total"]),
        (200, &json!([]), &json!(0))
    );
    let made = answered(ask(Method::POST, "/workspaces").json(&json!({"name": "third"}))).await;
    assert_eq!((made.status, &made.body["code"]), (403, &json!("workspace_scope_mismatch")));
    assert_eq!(made.body["key_workspace_id"], scene.away.as_str());
    let own =
        answered(ask(Method::POST, "/computers").json(&json!({"workspace_id": scene.away, "name": "own"})))
            .await;
    assert_eq!(own.status, 201, "{}", own.body);
    let id = own.body["id"].as_str().expect("an id");
    for path in
        [format!("/computers/{id}"), format!("/computers/{}", own.body["instance_id"].as_str().expect("one"))]
    {
        assert_eq!(answered(ask(Method::GET, &path)).await.status, 200);
    }
    // The instance handle is no way around the check (A15).
    let desk = scene.house.get(&format!("/computers/{}", scene.computer)).await.body;
    let around =
        answered(ask(Method::GET, &format!("/computers/{}", desk["instance_id"].as_str().expect("one"))))
            .await;
    assert_eq!(around.status, 403, "{}", around.body);
    // A workspace that goes takes its keys along.
    assert_eq!(scene.house.delete(&format!("/workspaces/{}", scene.away)).await.status, 200);
    assert_eq!(answered(ask(Method::GET, "/workspaces")).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_another_account_is_denied_and_learns_nothing() {
    let scene = Scene::set().await;
    for operation in scene.guarded() {
        let (request, targeted) = scene.request(&operation);
        if !targeted {
            continue;
        }
        let answer = answered(request.bearer_auth(&scene.foreign)).await;
        let name = format!("{}: {}", operation.name(), answer.body);
        if operation.path.contains("{name}") {
            // Names are each account's own.
            let error = answer.body["error"].as_str().unwrap_or_default();
            assert!(
                answer.status == 404 && ["Workspace not found", "Connection not found"].contains(&error),
                "{name}"
            );
            continue;
        }
        assert_eq!((answer.status, &answer.body["error"]), (403, &json!("Access denied")), "{name}");
        let fields: Vec<&String> = answer.body.as_object().expect("an object").keys().collect();
        // A clone's refusals have a code besides, whatever they are (interface.md "Clone"); so have those of its kin.
        let coded = ["/clone", "/fork", "/rollback", "/snapshots", "/snapshots/{snapshot_id}"];
        let coded = coded.iter().any(|end| operation.path.ends_with(end));
        let told: &[&str] = if coded { &["code", "error", "request_id"] } else { &["error", "request_id"] };
        assert_eq!(fields, told, "{name}");
    }
    for path in ["/workspaces", "/computers"] {
        let listed = answered(scene.house.request_with(&scene.foreign, Method::GET, path)).await;
        assert!(!listed.body.to_string().contains(&scene.home), "{path}: {}", listed.body);
    }
    let nobody = Secret::random(8).reveal().to_owned();
    for path in
        ["/computers/00000000-0000-4000-8000-000000000000".to_owned(), format!("/workspaces/{nobody}")]
    {
        assert_eq!(answered(scene.house.request_with(&scene.foreign, Method::GET, &path)).await.status, 404);
    }
}
