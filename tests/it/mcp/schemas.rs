//! Output schemas: the results of every tool, failures included, follow the schema that clients check.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::scene::Scene;
use super::tools::agent;
use crate::clients::python;
use crate::harness::agent::fetch_json;
use crate::templates::builds::{definition, publish};

/// Tools that cannot succeed here, and why. The Python client uses them with a real computer, or the tests of
/// their subject do.
const WITHOUT_SUCCESS: [(&str, &str); 6] = [
    ("cancel_build", "no build runs; see waits.rs"),
    ("run_agent", "no model is configured"),
    ("get_control", CONTROL),
    ("take_control", CONTROL),
    ("hand_back_control", CONTROL),
    ("answer_help", CONTROL),
];
const CONTROL: &str = "the simulated agent has no control; see tests/it/control";
/// The tool that accepts any arguments.
const WITHOUT_FAILURE: &str = "list_workspaces";

/// Checks each case against its whole schema, and against the part for its kind of result, whose fields are
/// all that it may have.
const CHECK: &str = r##"
import json, sys, jsonschema
Validator = jsonschema.Draft202012Validator

def fields(schema, definitions):
    names = set(schema.get("properties", {}))
    if "$ref" in schema:
        names |= fields(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    for part in schema.get("allOf", []) + schema.get("anyOf", []) + schema.get("oneOf", []):
        names |= fields(part, definitions)
    return names

for line in sys.stdin:
    case = json.loads(line)
    schema, definitions = case["schema"], case["schema"].get("$defs", {})
    Validator.check_schema(schema)
    errors = []
    for failed, answer in case["answers"]:
        branch = schema["anyOf"][1 if failed else 0]
        for part in (schema, {**branch, "$defs": definitions}):
            errors += [f"{error.json_path}: {error.message}" for error in Validator(part).iter_errors(answer)]
        unknown = set() if failed else set(answer) - fields(branch, definitions)
        errors += [f"{name} is not in the schema" for name in sorted(unknown)]
    print(json.dumps([case["tool"], errors]))
"##;

/// A client with the account's key, and all results that it got.
struct ResultLog<'a> {
    scene: &'a Scene,
    /// By tool: whether it failed, and its structure.
    answers: BTreeMap<String, Vec<(bool, Value)>>,
}

impl ResultLog<'_> {
    /// Calls a tool and returns its structure.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.scene.call_with_key(tool, arguments).await;
        let failed = result["isError"].as_bool().unwrap_or_else(|| panic!("{tool}: {result}"));
        let structure = result["structuredContent"].clone();
        self.answers.entry(tool.to_owned()).or_default().push((failed, structure.clone()));
        structure
    }

    /// Calls tools of one computer.
    async fn call_all(&mut self, computer: &str, calls: &[(&str, Value)]) {
        for (tool, more) in calls {
            let mut arguments = more.clone();
            arguments["computer_id"] = json!(computer);
            self.call(tool, arguments).await;
        }
    }

    /// Calls every tool so that it succeeds.
    async fn succeed(&mut self) {
        let (home, computer) = (json!(self.scene.home), self.scene.computer.clone());
        for tool in ["list_workspaces", "list_computers", "list_templates", "doctor"] {
            self.call(tool, json!({})).await;
        }
        self.call("get_workspace", json!({"workspace_id": home})).await;
        self.call("workspace_by_name", json!({"name": "home"})).await;
        let third = self.call("create_workspace", json!({"name": "third"})).await["id"].clone();
        let one = json!({"template_ref": "default/plain@1.0.0"});
        for tool in ["get_template", "build_template", "wait_for_build", "template_status"] {
            self.call(tool, one.clone()).await;
        }
        self.call_all(
            &computer,
            &[
                ("doctor", json!({})),
                ("get_computer", json!({})),
                ("list_screens", json!({})),
                ("create_screen", json!({})),
                ("delete_screen", json!({"screen": "screen-100"})),
                ("screenshot", json!({})),
                ("click", json!({"x": 1, "y": 1})),
                ("move", json!({"x": 1, "y": 1})),
                ("drag", json!({"start_x": 1, "start_y": 1, "end_x": 2, "end_y": 2})),
                ("scroll", json!({"direction": "down"})),
                ("type", json!({"text": "x"})),
                ("key", json!({"key": "a"})),
                ("wait", json!({"seconds": 0})),
                ("list_elements", json!({})),
                ("marked_screenshot", json!({})),
                ("get_timeline", json!({})),
                ("click_element", json!({"element_id": "e1"})),
                ("set_element_value", json!({"element_id": "e1", "value": "x"})),
                ("focus_element", json!({"element_id": "e1"})),
                ("bash", json!({"command": "true"})),
                ("exec", json!({"code": "1"})),
                ("list_files", json!({})),
                ("read_file", json!({"path": "a"})),
                ("write_file", json!({"path": "a", "text": "x"})),
                ("export_file", json!({"path": "a"})),
                ("upload_file", json!({"filename": "a", "text": "x", "workspace_id": home})),
                ("list_workspace_files", json!({"workspace_id": home})),
                ("resize_computer", json!({"vcpus": 2})),
                ("stop_computer", json!({})),
                ("start_computer", json!({})),
                ("ensure_running", json!({})),
                ("suspend_computer", json!({})),
                ("resume_computer", json!({})),
                ("restart_computer", json!({})),
                ("ensure_running", json!({})),
            ],
        )
        .await;
        let stored = self.call("list_workspace_files", json!({"workspace_id": home})).await;
        self.call("download_file", json!({"file_id": stored["files"][0]["id"]})).await;
        let made = self.call("create_computer", json!({"name": "second", "workspace_id": home})).await;
        let second = made["id"].as_str().expect("an id").to_owned();
        let snapshot = self.call("create_snapshot", json!({"computer_id": second, "memory": true})).await;
        let snapshot = snapshot["id"].clone();
        self.call_all(
            &second,
            &[
                ("list_snapshots", json!({})),
                ("clone_computer", json!({})),
                ("fork_computer", json!({})),
                ("launch_snapshot", json!({"snapshot_id": snapshot})),
                ("rollback", json!({"snapshot_id": snapshot})),
                ("ensure_running", json!({})),
                ("delete_snapshot", json!({"snapshot_id": snapshot})),
                ("move_computer", json!({"workspace_id": third})),
                ("delete_computer", json!({})),
            ],
        )
        .await;
        let made = self.scene.controller.post("/chat/threads", json!({"desktopId": computer})).await;
        let thread = json!({"thread_id": made.body["remoteId"]});
        self.call("list_threads", json!({"computer_id": computer})).await;
        for tool in ["get_thread", "thread_steps", "wait_for_run", "delete_thread"] {
            self.call(tool, thread.clone()).await;
        }
        self.call("delete_workspace", json!({"workspace_id": third})).await;
    }

    /// Calls a tool so that it fails: no argument has the right type.
    async fn fail(&mut self, tool: &str) {
        let names = ["computer_id", "workspace_id", "thread_id", "template_ref", "file_id", "name", "source"];
        let wrong = names.into_iter().map(|name| (name.to_owned(), json!([7])));
        self.call(tool, Value::Object(wrong.collect())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_result_follows_the_schema_of_its_tool() {
    let Some(python) = python() else { return };
    let scene = Scene::boot_with(agent()).await;
    let published = publish(&scene.controller, "", definition("plain@1.0.0", "")).await;
    assert_eq!(published.status, 201, "{}", published.body);
    let listed = fetch_json(scene.message("tools/list", json!({}))).await.body;
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let mut log = ResultLog { scene: &scene, answers: BTreeMap::new() };
    log.succeed().await;
    let mut cases = String::new();
    for tool in tools {
        let name = tool["name"].as_str().expect("a name");
        log.fail(name).await;
        // A refusal has more fields than a message.
        if tool["inputSchema"]["properties"]["computer_id"].is_object() {
            log.call(name, json!({"computer_id": "00000000-0000-4000-8000-000000000000"})).await;
        }
        let answers = &log.answers[name];
        let (succeeds, fails) =
            (answers.iter().any(|(failed, _)| !failed), answers.iter().any(|(failed, _)| *failed));
        let expected = !WITHOUT_SUCCESS.iter().any(|(without, _)| *without == name);
        assert_eq!(succeeds, expected, "{name}: {answers:?}");
        assert_eq!(fails, name != WITHOUT_FAILURE, "{name}: {answers:?}");
        let case = json!({"tool": name, "schema": tool["outputSchema"], "answers": answers});
        cases.push_str(&format!("{case}\n"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cases");
    fs::write(&file, cases).expect("the cases");
    let mut command = Command::new(python);
    command.arg("-c").arg(CHECK).stdin(fs::File::open(&file).expect("the cases"));
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for result in out.lines() {
        let (name, errors): (String, Vec<String>) = serde_json::from_str(result).expect("a result");
        assert!(errors.is_empty(), "{name}: {errors:?} of {:?}", log.answers[&name]);
    }
    assert_eq!(out.lines().count(), tools.len());
}
