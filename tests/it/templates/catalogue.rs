//! Templates of the service: listed, built by the operator, launched by everybody, with their programs on their ports
//! (docs/templates.md).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::access::cast::add_key;
use crate::clients::python;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::caller::{Caller, id_of};
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, full_image};
use crate::harness::sampling::is_full_run;
use crate::harness::simulation::Simulation;
use crate::harness::trusting_image::TrustingImage;
use crate::plans;

/// Longest build: the download and the unpacking of a few hundred megabytes, beside other tests.
const BUILD_TIMEOUT: Duration = Duration::from_secs(200);
/// Longest build of a template that is built only in full runs: code-server compiles its modules for minutes.
const LONG_BUILD_TIMEOUT: Duration = Duration::from_secs(900);
/// Longest time until the window of a template shows what it is about: pages load beside other tests.
const WINDOW_TIMEOUT: Duration = Duration::from_secs(60);
/// Milliseconds in which a desktop must not change before its picture is taken, and for which that is awaited.
/// A text cursor may blink for ever.
const QUIET_MS: u32 = 5000;
const QUIET_TIMEOUT_MS: u32 = 30_000;
/// Longest start of a program of a template.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// What the programs of builds say when they do not reach a registry.
const UNREACHABLE: [&str; 5] =
    ["Could not resolve", "Temporary failure", "Unable to fetch", "Failed to fetch", "getaddrinfo"];

/// A controller with the full image, in which most packages are installed already, and its computer.
struct Scene {
    controller: RunningController,
    computer: String,
    /// Dropped last: the controller's machines use it.
    _image: TrustingImage,
}

impl Scene {
    /// The same for a template whose build downloads hundreds of megabytes, or compiles for minutes.
    async fn launch_in_full_run(template: &str) -> Option<Self> {
        if is_full_run() {
            return Self::launch_within(LONG_BUILD_TIMEOUT, template).await;
        }
        Capability::Registries
            .skip("a long build of a template of the service: only with HOTDESK_PROOF=full");
        None
    }

    /// Builds a template of the service and launches it; `None` where that is not possible.
    async fn launch(template: &str) -> Option<Self> {
        Self::launch_within(BUILD_TIMEOUT, template).await
    }

    async fn launch_within(timeout: Duration, template: &str) -> Option<Self> {
        full_image()?;
        let image = TrustingImage::link();
        let controller = RunningController::boot_image(&image.path(), "").await;
        let path = format!("/templates/system/{}/build", template.replace('@', "/"));
        let begun = controller.post(&path, json!({})).await;
        // The guest image as it is needs no build, and its computers have no template.
        let is_plain = template.starts_with("desktop@");
        let expected = if is_plain { "ready" } else { "building" };
        assert_eq!((begun.status, &begun.body["status"]), (200, &json!(expected)), "{}", begun.body);
        let built = wait::until(timeout, || async {
            let status = controller.get(&path).await.body;
            (status["status"] != "building").then_some(status)
        });
        let built = built.await.expect("the build ends");
        let error = built["error"].as_str().unwrap_or_default();
        if UNREACHABLE.iter().any(|sign| error.contains(sign)) {
            Capability::Registries.skip(format_args!("a build cannot download its packages: {error}"));
            return None;
        }
        assert_eq!(built["status"], "ready", "{built}");
        if template.starts_with("claude-code") {
            let stored = controller.request(Method::PUT, "/secrets/ANTHROPIC_API_KEY");
            let stored = fetch_json(stored.json(&json!({"value": "no real key"}))).await;
            assert!(stored.status < 300, "{}", stored.body);
        }
        let workspace = controller.workspace("w").await;
        let launched = launch(&controller, controller.key(), &workspace, &format!("system/{template}")).await;
        assert_eq!(launched.status, 201, "{}", launched.body);
        let reference = (!is_plain).then(|| format!("system/{template}"));
        assert_eq!(launched.body["template_ref"], json!(reference));
        let computer = id_of(&launched.body);
        Some(Self { controller, computer, _image: image })
    }

    /// The ports of the computer, with their URLs checked and removed.
    async fn ports(&self) -> Vec<Value> {
        let mut list = self.controller.get(&format!("/computers/{}/ports", self.computer)).await.body;
        let ports = list["ports"].as_array_mut().expect("ports");
        for port in ports.iter_mut() {
            let url = format!("{}/", self.url(port["port"].as_u64().expect("a number")));
            assert_eq!(port["url"], url);
            port.as_object_mut().expect("a record").remove("url");
        }
        ports.clone()
    }

    /// The address of a port.
    fn url(&self, port: u64) -> String {
        format!("{}/api/computers/{}/ports/{port}", self.controller.base(), self.computer)
    }

    /// Waits until a program answers a GET with 200, and returns the text. It sends the key, or none.
    async fn answer(&self, port: u64, path: &str, key: Option<&str>) -> String {
        let client = &self.controller.client;
        let answered = wait::until(START_TIMEOUT, || async {
            let request = client.get(format!("{}{path}", self.url(port)));
            let request = match key {
                Some(key) => request.bearer_auth(key),
                None => request,
            };
            let answer = request.send().await.expect("an answer");
            if answer.status() == 200 { answer.text().await.ok() } else { None }
        });
        match answered.await {
            Some(text) => text,
            None => panic!("nothing answers on port {port}: {}", self.services().await),
        }
    }

    /// The services of the computer with the ends of their logs, for a failed test.
    async fn services(&self) -> String {
        let logs = "tail -n 20 /var/log/hotdesk/services/*/current";
        self.controller.bash(&self.computer, logs).await
    }

    /// Stores a picture of the desktop for the catalogue, if `HOTDESK_PICTURES` names a folder
    /// (`packaging/dev/pictures`). First it waits for a window with `title` in its title, in any case of
    /// letters.
    async fn take_picture(&self, template: &str, title: Option<&str>) {
        let Some(folder) = std::env::var_os("HOTDESK_PICTURES") else { return };
        if let Some(title) = title {
            let windows = format!("/computers/{}/windows", self.computer);
            let shown = wait::until(WINDOW_TIMEOUT, || async {
                let text = self.controller.get(&windows).await.body.to_string().to_lowercase();
                text.contains(&title.to_lowercase()).then_some(())
            });
            if shown.await.is_none() {
                let seen = self.controller.get(&windows).await.body;
                panic!("no window shows {title:?}: {seen}\n{}", self.services().await);
            }
        }
        let settle = json!({"quiet_ms": QUIET_MS, "timeout_ms": QUIET_TIMEOUT_MS});
        let quiet = self.controller.act(&self.computer, "wait_stable", settle).await;
        assert_eq!(quiet.status, 200, "{}", quiet.body);
        let query = "response_format=binary&format=webp&quality=60&scale=0.5";
        let path = format!("/computers/{}/screenshot?{query}", self.computer);
        let answer = self.controller.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let picture = answer.bytes().await.expect("a picture");
        std::fs::write(Path::new(&folder).join(format!("{template}.webp")), picture).expect("a file");
    }

    /// The status of a request without a key.
    async fn status_of_stranger(&self, port: u64) -> u16 {
        let request = self.controller.client.get(format!("{}/", self.url(port)));
        request.send().await.expect("an answer").status().as_u16()
    }
}

async fn launch(controller: &Caller, key: &str, workspace: &str, template: &str) -> HttpAnswer {
    let body = json!({"workspace_id": workspace, "name": "one", "template_ref": template});
    fetch_json(controller.request_with(key, Method::POST, "/computers").json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_is_for_every_account_and_only_the_operator_builds_it() {
    let config = plans::config();
    let controller = Simulation::boot_configured(config.clone()).await;
    let list = controller.get("/templates/global").await.body;
    let list = list["templates"].as_array().expect("templates");
    let names: Vec<&str> = list.iter().filter_map(|template| template["ref"].as_str()).collect();
    for name in ["browser", "claude-code", "code", "desktop", "node", "python"] {
        assert!(names.contains(&&*format!("system/{name}@1.0.0")), "{name} is not in {names:?}");
    }
    for template in list {
        let reference = template["ref"].as_str().expect("a reference");
        let plain = reference == "system/desktop@1.0.0";
        assert_eq!(template["status"], if plain { "ready" } else { "not_built" }, "{template}");
        assert!(
            template["published_at"].is_null() && template["template"]["template"]["description"].is_string()
        );
        let path = reference.replace('@', "/");
        assert_eq!(&controller.get(&format!("/templates/{path}")).await.body, template);
        let (name, _) = reference.split_once('@').expect("a version");
        for versions in [format!("/templates/global/{name}"), format!("/templates/{name}")] {
            assert_eq!(controller.get(&versions).await.body["templates"][0], *template, "{versions}");
        }
        if let Some(picture) = template["picture"].as_str() {
            let answer = controller.bare(Method::GET, picture).send().await.expect("an answer");
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["content-type"]),
                (200, &"image/webp".parse().unwrap())
            );
            assert!(answer.bytes().await.expect("a picture").starts_with(b"RIFF"), "{picture}");
        }
    }
    for path in
        ["/templates/system/none/1.0.0", "/templates/system/browser/9.9.9", "/templates/global/system/none"]
    {
        assert_eq!(controller.get(path).await.status, 404, "{path}");
    }
    let deleted = controller.delete("/templates/system/browser/1.0.0").await;
    assert_eq!(deleted.status, 403, "{}", deleted.body);
    // The guest image as it is needs no build.
    let built = controller.post("/templates/system/desktop/1.0.0/build", json!({})).await;
    assert_eq!(
        (&built.body["status"], &built.body["reused"]),
        (&json!("ready"), &json!(true)),
        "{}",
        built.body
    );

    // An account whose plan has no authoring reads and launches. It builds and cancels nothing.
    let (account, _) = controller.account("small@localhost").await;
    plans::give_plan(&controller, &config, account, "small").await;
    let (other, author) = controller.account("author@localhost").await;
    for key in [add_key(&controller.store().await, account, None).await, author] {
        for (method, end) in
            [(Method::POST, "build"), (Method::DELETE, "build"), (Method::GET, "build/events")]
        {
            let path = format!("/templates/system/browser/1.0.0/{end}");
            let refused = fetch_json(controller.request_with(&key, method.clone(), &path)).await;
            assert_eq!(refused.status, 403, "{method} {path}: {}", refused.body);
        }
        let status =
            fetch_json(controller.request_with(&key, Method::GET, "/templates/system/browser/1.0.0/build"));
        assert_eq!(status.await.body["status"], "not_built");
        let workspace = json!({"name": "theirs"});
        let made =
            fetch_json(controller.request_with(&key, Method::POST, "/workspaces").json(&workspace)).await;
        let workspace = id_of(&made.body);
        let unbuilt = launch(&controller, &key, &workspace, "system/browser@1.0.0").await;
        let message = unbuilt.body["error"].as_str().unwrap_or_default();
        assert_eq!((unbuilt.status, &unbuilt.body["code"]), (409, &json!("TEMPLATE_NOT_READY")));
        assert!(message.contains("hotdesk templates build system/browser@1.0.0"), "{message}");
        let plain = launch(&controller, &key, &workspace, "system/desktop@1.0.0").await;
        assert_eq!(plain.status, 201, "{}", plain.body);
    }
    assert!(controller.store().await.templates(other, None).await.expect("a list").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_desktop_of_the_service_is_the_guest_image() {
    let Some(scene) = Scene::launch("desktop@1.0.0").await else { return };
    assert_eq!(scene.ports().await, Vec::<Value>::new());
    let services = scene.controller.get(&format!("/computers/{}/services", scene.computer)).await.body;
    assert_eq!(services["services"], json!([]), "{services}");
    let manager = scene.controller.bash(&scene.computer, "wmctrl -m | head -n1").await;
    assert_eq!(manager, "Name: Openbox\n");
    scene.take_picture("desktop", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn playwright_drives_the_browser_of_the_service_from_outside() {
    let Some(python) = python() else { return };
    let Some(scene) = Scene::launch("browser@1.0.0").await else { return };
    let port = json!({"port": 9222, "name": "browser", "protocol": "http", "public": true});
    assert_eq!(scene.ports().await, [port]);
    scene.answer(9222, "/json/version", None).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/devtools_client.py");
    let key = format!("Authorization:Bearer {}", scene.controller.key());
    for credential in [None, Some(key)] {
        let mut command = Command::new(&python);
        command.arg(script).arg(scene.url(9222)).args(credential);
        let ran =
            tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("Python");
        let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{errors}\n{}", scene.services().await);
        let seen: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        assert_eq!((&seen["title"], &seen["picture"]), (&json!("after"), &json!("89504e47")), "{seen}");
        assert!(seen["agent"].as_str().is_some_and(|agent| agent.contains("Chrome/")), "{seen}");
    }
    // It runs on the desktop, as a user that is not root.
    let windows = scene.controller.get(&format!("/computers/{}/windows", scene.computer)).await.body;
    assert!(windows.to_string().contains("Chromium"), "{windows}");
    let user = scene.controller.bash(&scene.computer, "ps -o user= -C chromium | sort -u").await;
    assert_eq!(user, "orgo\n");
    scene.take_picture("browser", Some("chromium")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jupyterlab_of_the_service_answers_by_key_alone() {
    let Some(scene) = Scene::launch_in_full_run("python@1.0.0").await else { return };
    let port = json!({"port": 8888, "name": "jupyterlab", "protocol": "http", "public": false});
    assert_eq!(scene.ports().await, [port]);
    let key = scene.controller.key();
    let status: Value =
        serde_json::from_str(&scene.answer(8888, "/api/status", Some(key)).await).expect("JSON");
    assert_eq!(status["kernels"], 0, "{status}");
    assert!(scene.answer(8888, "/lab", Some(key)).await.contains("JupyterLab"));
    assert_eq!(scene.status_of_stranger(8888).await, 401);
    scene.take_picture("python", Some("jupyterlab - chromium")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_of_the_service_serves_its_folder_to_everybody() {
    let Some(scene) = Scene::launch("node@1.0.0").await else { return };
    let port = json!({"port": 3000, "name": "web", "protocol": "http", "public": true});
    assert_eq!(scene.ports().await, [port]);
    assert!(scene.answer(3000, "/", None).await.contains("<title>Node.js</title>"));
    scene.controller.bash(&scene.computer, "echo mine >/srv/www/own.html; npm --version").await;
    assert_eq!(scene.answer(3000, "/own.html", None).await, "mine\n");
    for path in ["/none", "/..%2f..%2fetc/passwd"] {
        let answer = scene.controller.client.get(format!("{}{path}", scene.url(3000))).send().await;
        assert_eq!(answer.expect("an answer").status(), 404, "{path}");
    }
    scene.take_picture("node", Some("node.js - chromium")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_the_service_has_its_key_as_a_secret() {
    let Some(scene) = Scene::launch_in_full_run("claude-code@1.0.0").await else { return };
    assert_eq!(scene.ports().await, Vec::<Value>::new());
    let version = scene.controller.bash(&scene.computer, "claude --version").await;
    assert!(version.contains("Claude Code"), "{version}");
    let started = wait::until(START_TIMEOUT, || async {
        let found = "pid=$(pgrep -xo claude) && tr '\\0' '\\n' </proc/$pid/environ | grep ^ANTHROPIC_API_KEY";
        let found = scene.controller.bash(&scene.computer, found).await;
        Some(found).filter(|text| !text.is_empty())
    });
    assert_eq!(started.await.as_deref(), Some("ANTHROPIC_API_KEY=no real key\n"));
    scene.take_picture("claude-code", Some("claude")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_editor_of_the_service_answers_by_key_alone() {
    let Some(scene) = Scene::launch_in_full_run("code@1.0.0").await else { return };
    let port = json!({"port": 8443, "name": "code-server", "protocol": "http", "public": false});
    assert_eq!(scene.ports().await, [port]);
    let key = scene.controller.key();
    assert!(scene.answer(8443, "/?folder=/home/orgo/project", Some(key)).await.contains("code-server"));
    // After a request: nobody used it before.
    assert!(scene.answer(8443, "/healthz", Some(key)).await.contains("\"status\":\"alive\""));
    assert_eq!(scene.status_of_stranger(8443).await, 401);
    scene.take_picture("code", Some("project - code-server")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stars_are_an_account_s_own() {
    let controller = Simulation::boot().await;
    let definition = "api_version: hotdesk/v1\nname: star@1.0.0\n".to_owned();
    let published = controller.request(Method::POST, "/templates").body(definition);
    assert_eq!(fetch_json(published).await.status, 201);
    let (_, other) = controller.account("other@localhost").await;
    let star = async |key: &str, id: &str, starred: bool| {
        let path = format!("/templates/{}/star", id.replace('/', "%2F"));
        let request = controller.request_with(key, Method::POST, &path).json(&json!({"starred": starred}));
        let answer = fetch_json(request).await;
        (answer.status, answer.body["starred"].clone())
    };
    let starred = async |key: &str| {
        let list = fetch_json(controller.request_with(key, Method::GET, "/templates/starred")).await.body;
        let templates = list["templates"].as_array().expect("templates").clone();
        templates
            .iter()
            .map(|template| template["ref"].as_str().expect("a reference").to_owned())
            .collect::<Vec<_>>()
    };
    let key = controller.key().to_owned();
    for id in ["default/star@1.0.0", "system/browser@1.0.0", "system/browser@1.0.0"] {
        assert_eq!(star(&key, id, true).await, (200, json!(true)), "{id}");
    }
    assert_eq!(starred(&key).await, ["default/star@1.0.0", "system/browser@1.0.0"]);
    assert_eq!(starred(&other).await, Vec::<String>::new());
    for id in ["default/star@1.0.0", "system/none@1.0.0", "x"] {
        assert_eq!(star(&other, id, true).await.0, 404, "{id}");
    }
    assert_eq!(star(&key, "system/browser@1.0.0", false).await, (200, json!(false)));
    assert_eq!(controller.delete("/templates/default/star/1.0.0").await.status, 200);
    assert_eq!(starred(&key).await, Vec::<String>::new());
    // The path of stars is that of the versions of a template with this name, too.
    assert_eq!(controller.get("/templates/default/star").await.status, 404);
    let again =
        controller.request(Method::POST, "/templates").body("api_version: hotdesk/v1\nname: star@1.0.1\n");
    assert_eq!(fetch_json(again).await.status, 201);
    assert_eq!(
        controller.get("/templates/default/star").await.body["templates"][0]["ref"],
        "default/star@1.0.1"
    );
}
