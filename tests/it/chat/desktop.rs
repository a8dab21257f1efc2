//! Runs on a real computer, and unmodified clients of the OpenAI API and of the prompt socket.

use std::process::Command;
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;

use super::scene::{computer, settings};
use crate::clients::python;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::models::{ScriptedModels, Turn};

/// Longest wait for a program on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A controller with a real computer and a scripted model. Where no computer can run, prints the reason and
/// returns `None`.
async fn boot(turns: Vec<Turn>) -> Option<(RunningController, ScriptedModels, String)> {
    if let Some(skip) = skip_reason() {
        skip.report();
        return None;
    }
    let models = ScriptedModels::start(turns).await;
    let controller = RunningController::boot_with(&configuration(&models)).await;
    let workspace = controller.workspace("demo").await;
    let computer = id_of(&controller.computer(&workspace, "one").await);
    Some((controller, models, computer))
}

fn configuration(models: &ScriptedModels) -> String {
    let settings = settings(&models.url());
    let local = &settings.backends["local"];
    format!(
        "[models]\ndefault = {:?}\n[models.backends.local]\nkind = \"openai\"\nbase_url = {:?}\n\
         [models.backends.local.models.{}]\ninput = 1.0\noutput = 1.0\n",
        settings.default, local.base_url, settings.default
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_opens_an_editor_writes_a_text_and_saves_it() {
    let text = "Grüße aus dem Editor, naïve Ω → ✓";
    // The editor is a shell's: it saves what was typed at the end of the file.
    let open = "rm -f /root/poem.txt; DISPLAY=:99 nohup xterm -geometry 80x24+50+50 -T poem \
                -e 'cat > /root/poem.txt' >/dev/null 2>&1 & \
                DISPLAY=:99 timeout 20 xdotool search --sync --onlyvisible --name poem windowfocus --sync; echo open";
    let turns = vec![
        Turn::text("I open the editor.").then_call("bash", &json!({ "command": open })),
        computer(json!({"action": "left_click", "coordinate": [200, 150]})),
        computer(json!({"action": "type", "text": text}))
            .then_call("computer", &json!({"action": "key", "text": "Return"})),
        computer(json!({"action": "key", "text": "ctrl+d"})),
        computer(json!({"action": "screenshot"})),
        Turn::text("I saved the text as poem.txt."),
    ];
    let Some((controller, models, computer)) = boot(turns).await else { return };
    let body = json!({"computer_id": computer, "messages": [{"role": "user", "content": "Write it."}]});
    let answer = controller.post("/v1/chat/completions", body).await;
    assert_eq!((answer.status, &answer.body["orgo"]["steps"]), (200, &json!(6)), "{}", answer.body);
    let saved = wait::until(TIMEOUT, || async {
        let read = controller.act(&computer, "bash", json!({"command": "cat /root/poem.txt"})).await;
        let output = read.body["output"].as_str().unwrap_or_default().to_owned();
        output.ends_with('\n').then_some(output)
    });
    let seen: Vec<String> = models
        .requests()
        .iter()
        .map(|request| request.body["messages"].to_string().len().to_string())
        .collect();
    assert_eq!(
        saved.await.as_deref(),
        Some(format!("{text}\n").as_str()),
        "{}, requests: {seen:?}",
        answer.body
    );
    let thread = answer.body["orgo"]["thread_id"].as_str().expect("an id");
    let steps = controller.get(&format!("/chat/threads/{thread}/steps")).await;
    let typed = &steps.body["steps"][2];
    assert!(typed["is_error"] == false && typed["effect"]["window_after"].is_object(), "{typed}");
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
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("it ran").expect("it ran");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    assert!(output.ends_with("all calls passed\n"), "{output}");
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
    let ran = tokio::task::spawn_blocking(move || client.output()).await.expect("it ran").expect("it ran");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    assert!(output.ends_with("prompt passed\n"), "{output}");
    assert!(!controller.log().contains(controller.key()), "the log contains the key");
}
