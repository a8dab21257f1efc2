//! Runs on a real computer, and unmodified clients of the OpenAI API, of the prompt socket and of Anthropic's
//! API.

use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};

use super::scene::{computer, configuration, pictures};
use crate::clients::python;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::models::{ScriptedModels, Turn};

/// Longest wait for a program on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A controller with a real computer over `runc` and a scripted model. Where no computer can run, prints the
/// reason and returns `None`.
pub async fn boot(turns: Vec<Turn>) -> Option<(RunningController, ScriptedModels, String)> {
    if let Some(skip) = skip_reason() {
        skip.report();
        return None;
    }
    Some(boot_over("", turns).await)
}

/// [`boot`] with these lines of configuration, which may choose another engine.
async fn boot_over(lines: &str, turns: Vec<Turn>) -> (RunningController, ScriptedModels, String) {
    let models = ScriptedModels::start(turns).await;
    let controller = RunningController::boot_with(&format!("{}{lines}", configuration(&models))).await;
    let workspace = controller.workspace("demo").await;
    let computer = id_of(&controller.computer(&workspace, "one").await);
    (controller, models, computer)
}

/// File of the editor.
const FILE: &str = "/root/poem.txt";

/// Command that opens an editor and gives it the focus. The editor is a shell's: each line that was typed is
/// at the end of its file, and Ctrl+D at the beginning of a line closes it.
pub fn open_editor() -> String {
    format!(
        "rm -f {FILE}; DISPLAY=:99 nohup xterm -geometry 80x24+50+50 -T poem -e 'cat > {FILE}' \
         >/dev/null 2>&1 & DISPLAY=:99 timeout 90 xdotool search --sync --onlyvisible --name poem \
         windowfocus --sync; echo open"
    )
}

/// A model's call that opens the editor. gVisor on a busy machine takes its time to start programs.
pub fn editor_call() -> Value {
    json!({"command": open_editor(), "timeout": 110})
}

/// A turn that opens the editor.
pub fn opens_editor() -> Turn {
    Turn::text("I open the editor.").then_call("bash", &editor_call())
}

/// A turn that types a line into the editor.
pub fn types_line(text: &str) -> Turn {
    let enter = json!({"action": "key", "text": "Return"});
    computer(json!({"action": "type", "text": text})).then_call("computer", &enter)
}

/// A turn that closes the editor.
pub fn closes_editor() -> Turn {
    computer(json!({"action": "key", "text": "ctrl+d"}))
}

/// Waits until the editor is closed and its file has these bytes, and fails otherwise.
pub async fn assert_saved(controller: &RunningController, computer: &str, expected: &str) {
    let look = || controller.bash(computer, "pgrep -f '[T] poem'; cat /root/poem.txt 2>/dev/null; true");
    let saved = wait::until(TIMEOUT, || async { (look().await == expected).then_some(()) }).await.is_some();
    assert!(saved, "the file, after the process of an open editor: {:?}", look().await);
}

/// Lets a run open an editor, write a text and save it, on a computer of this isolation. The bytes of the
/// file are the judge.
async fn write_and_save(lines: &str, isolation: &str) {
    let text = "Grüße aus dem Editor, naïve Ω → ✓";
    let turns = vec![
        opens_editor(),
        computer(json!({"action": "left_click", "coordinate": [200, 150]})),
        types_line(text),
        closes_editor(),
        computer(json!({"action": "screenshot"})),
        Turn::text("I saved the text as poem.txt."),
    ];
    let (controller, models, computer) = boot_over(lines, turns).await;
    assert_eq!(controller.record(&computer).await["isolation"], isolation);
    let body = json!({"computer_id": computer, "messages": [{"role": "user", "content": "Write it."}]});
    let answer = controller.post("/v1/chat/completions", body).await;
    assert_eq!((answer.status, &answer.body["orgo"]["steps"]), (200, &json!(6)), "{}", answer.body);
    assert_saved(&controller, &computer, &format!("{text}\n")).await;
    assert_eq!(models.requests().len(), 6, "each turn is asked for once");
    let thread = answer.body["orgo"]["thread_id"].as_str().expect("an id");
    let steps = controller.get(&format!("/chat/threads/{thread}/steps")).await;
    let typed = &steps.body["steps"][2];
    assert!(typed["is_error"] == false && typed["effect"]["window_after"].is_object(), "{typed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_opens_an_editor_writes_a_text_and_saves_it() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    write_and_save("", "shared").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_over_gvisor_opens_an_editor_writes_a_text_and_saves_it() {
    let Some(lines) = gvisor() else { return };
    write_and_save(&lines, "sandbox").await;
}

/// Runs a client, which must succeed with this last line.
async fn run(mut client: Command, last: &str) {
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("it ran").expect("it ran");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    assert!(output.ends_with(last), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_with_the_key_of_a_run_takes_the_screen_from_it_and_hands_it_back() {
    let line = "rm -f /tmp/go; until [ -e /tmp/go ]; do sleep 0.1; done";
    let turns = vec![
        Turn::call("bash", &json!({"command": line, "timeout": 120})),
        computer(json!({"action": "left_click", "coordinate": [200, 150]})),
        computer(json!({"action": "left_click", "coordinate": [200, 150]})),
        Turn::text("Done."),
    ];
    let Some((controller, models, computer)) = boot(turns).await else { return };
    let body = json!({"computer_id": computer, "messages": [{"role": "user", "content": "Click."}]});
    let control = format!("/desktops/{computer}/proxy/screens/default/control");
    let thread = async || {
        let listed = controller.get(&format!("/chat/threads?desktopId={computer}")).await;
        listed.body["threads"][0].clone()
    };
    let person = async {
        let asked = wait::until(TIMEOUT, || async { (!models.requests().is_empty()).then_some(()) });
        asked.await.expect("a run");
        let taken = controller.post(&control, json!({"seconds": 600})).await;
        assert_eq!((taken.status, &taken.body["holder"]["kind"]), (200, &json!("key")), "{}", taken.body);
        // Until the command of the run looks for it: the file of an earlier moment is removed.
        let waiting = wait::until(TIMEOUT, || async {
            controller.act(&computer, "bash", json!({"command": "touch /tmp/go"})).await;
            (thread().await["waiting_for"] == "control").then_some(())
        });
        waiting.await.expect("a run that waits for the screen");
        let back = controller.post(&format!("{control}/hand_back"), json!({"note": "Signed in."})).await;
        assert_eq!(back.status, 200, "{}", back.body);
    };
    let (answer, ()) = tokio::join!(controller.post("/v1/chat/completions", body), person);
    assert_eq!((answer.status, &answer.body["orgo"]["steps"]), (200, &json!(3)), "{}", answer.body);
    let requests = models.requests();
    let messages = requests[2].body["messages"].as_array().expect("messages").clone();
    let seen = Value::from(messages.clone()).to_string();
    assert!(
        seen.contains("Somebody with an API key had control") && seen.contains("Signed in."),
        "{seen:.4000}"
    );
    assert_eq!(pictures(&messages), 2, "the first picture and a new one");
    let id = answer.body["orgo"]["thread_id"].as_str().expect("an id");
    let steps = controller.get(&format!("/chat/threads/{id}/steps")).await;
    let failed: Vec<&Value> =
        steps.body["steps"].as_array().expect("steps").iter().map(|it| &it["is_error"]).collect();
    assert_eq!(failed, [&json!(false), &json!(true), &json!(false)], "{}", steps.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unmodified_openai_client_speaks_to_a_computer() {
    let turns = vec![
        Turn::text("Hello ").then_call("bash", &json!({"command": "echo from the computer"})),
        Turn::text("world."),
        Turn::text("One two three."),
        Turn::text("With history."),
        Turn::refused(400),
    ];
    let Some(python) = python() else { return };
    let Some((controller, _models, computer)) = boot(turns).await else { return };
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/openai_client.py"));
    client
        .args([&format!("{}/api/v1", controller.base()), &computer])
        .env("OPENAI_API_KEY", controller.key());
    run(client, "all calls passed\n").await;
    assert!(!controller.log().contains(controller.key()), "the log contains the key");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pypi_client_s_prompt_runs_here() {
    let turns = vec![
        Turn::text("I look.").then_call("computer", &json!({"action": "screenshot"})),
        Turn::text("A desktop."),
        Turn::refused(400),
    ];
    let Some(python) = python() else { return };
    let Some((controller, _models, computer)) = boot(turns).await else { return };
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/orgo_prompt.py"));
    client.args([controller.base(), &computer]).env("ORGO_API_KEY", controller.key());
    run(client, "prompt passed\n").await;
    assert!(!controller.log().contains(controller.key()), "the log contains the key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_of_the_unmodified_anthropic_client_acts_here() {
    let turns = vec![
        computer(json!({"action": "left_click", "coordinate": [200, 150]})),
        types_line("Written by a loop"),
        closes_editor(),
        Turn::text("It is saved."),
        Turn::refused(400),
    ];
    let Some(python) = python() else { return };
    let Some((controller, models, computer)) = boot(turns).await else { return };
    controller.bash(&computer, &open_editor()).await;
    let mut client = Command::new(python);
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/anthropic_loop.py"));
    client.args([&models.url(), &format!("{}/api", controller.base()), &computer]);
    client.env("HOTDESK_API_KEY", controller.key());
    run(client, "the loop is closed\n").await;
    assert_saved(&controller, &computer, "Written by a loop\n").await;
    let requests = models.requests();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.path == "/v1/messages"), "{requests:?}");
    let sent = format!("{requests:?}{}", controller.log());
    assert!(!sent.contains(controller.key()), "the model or the log learns the key");
}
