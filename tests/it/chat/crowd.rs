//! Many runs at the same time: each acts on its own computer and writes its own thread, and none learns of
//! another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use hotdesk::base::wait;
use hotdesk::controller::config::Config;
use hotdesk::engine::simulated::{AgentBoot, AgentFactory};
use serde_json::{Value, json};

use super::scene::{AgentLog, Scene, TIMEOUT, command, computer, pictures, settings, until_counted};
use crate::harness::caller::HttpAnswer;
use crate::harness::models::{RecordedRequest, ScriptedModels, Turn};
use crate::harness::simulation::{Setup, Simulation, default_agent};

/// Runs at the same time, each on a computer of its own.
const RUNS: usize = 50;
/// Requests of each run to the model: a command, a click, a command, and the end.
const TURNS: usize = 4;
/// Beginning of the mark of a run, which all of its texts have. Nothing else in a request contains it.
const MARK: &str = "crowd-";
/// Most runs of an account (docs/api/chat.md, "Bounds").
const MAX_RUNS: usize = 100;

fn mark(number: usize) -> String {
    format!("{MARK}{number:02}")
}

/// The marks in a text.
fn marks(text: &str) -> BTreeSet<&str> {
    let length = MARK.len() + 2;
    text.match_indices(MARK).filter_map(|(at, _)| text.get(at..at + length)).collect()
}

fn messages(request: &RecordedRequest) -> &[Value] {
    request.body["messages"].as_array().expect("messages")
}

/// The next turn of the conversation in a request.
fn next_turn(request: &RecordedRequest) -> Turn {
    let text = request.body["messages"].to_string();
    let mark = *marks(&text).first().expect("the mark of a run");
    let number: usize = mark[MARK.len()..].parse().expect("the number of a run");
    match messages(request).iter().filter(|message| message["role"] == "tool").count() {
        0 => Turn::text(&format!("{mark} begins."))
            .then_call("bash", &json!({"command": format!("echo {mark} 0")})),
        1 => computer(json!({"action": "left_click", "coordinate": [number, 20]})),
        2 => command(&format!("echo {mark} 2")),
        _ => Turn::text(&format!("{mark} is done.")),
    }
}

/// Logs of the agents, by the ids of their computers.
#[derive(Clone, Default)]
struct AgentLogs(Arc<Mutex<BTreeMap<String, AgentLog>>>);

impl AgentLogs {
    /// The log of a computer, whose commands print its id.
    fn of(&self, computer: &str) -> AgentLog {
        let mut logs = self.0.lock().expect("the logs");
        let new = || AgentLog::printing(format!("printed by {computer}\n"));
        logs.entry(computer.to_owned()).or_insert_with(new).clone()
    }

    fn agents(&self) -> AgentFactory {
        let logs = self.clone();
        Arc::new(move |boot: &AgentBoot| default_agent().merge(logs.of(&boot.spec.id.to_string()).routes()))
    }
}

/// Checks that a run acted on its computer alone, and that its thread has what it did.
async fn check(controller: &Simulation, answer: &HttpAnswer, number: usize, computer: &str, log: &AgentLog) {
    let mark = mark(number);
    let own = BTreeSet::from([mark.as_str()]);
    assert_eq!(answer.status, 200, "{mark}: {}", answer.body);
    let run = &answer.body["orgo"];
    assert_eq!((&run["ended"], &run["steps"]), (&json!("done"), &json!(3)), "{mark}: {}", answer.body);
    let content = format!("{mark} begins.\n\n{mark} is done.");
    assert_eq!(answer.body["choices"][0]["message"]["content"], content);
    // A turn has 110 tokens.
    assert_eq!(answer.body["usage"]["total_tokens"], 110 * TURNS, "{mark}: {}", answer.body);

    let path = format!("/chat/threads/{}", run["thread_id"].as_str().expect("an id"));
    let thread = controller.get(&path).await.body;
    assert_eq!(
        (&thread["run"], &thread["step_count"], &thread["computer_id"]),
        (&json!("done"), &json!(3), &json!(computer)),
        "{mark}: {thread}"
    );
    assert_eq!(marks(&thread.to_string()), own);
    let page = controller.get(&format!("{path}/steps")).await.body;
    assert_eq!(marks(&page.to_string()), own);
    let steps = page["steps"].as_array().expect("steps");
    let names: Vec<&Value> = steps.iter().map(|step| &step["call"]["name"]).collect();
    assert_eq!(names, ["bash", "computer", "bash"], "{mark}");
    assert_eq!(steps[1]["call"]["input"]["coordinate"][0], number, "{mark}");
    for step in [&steps[0], &steps[2]] {
        let result = step["result"].as_str().unwrap_or_default();
        assert!(result.contains(&format!("printed by {computer}\n")), "{mark}: {step}");
    }

    let lines: Vec<Value> = log.commands().into_iter().map(|body| body["command"].clone()).collect();
    assert_eq!(lines, [json!(format!("echo {mark} 0")), json!(format!("echo {mark} 2"))]);
    let batches = log.batches();
    assert_eq!(batches.len(), 1, "{mark}");
    assert_eq!(batches[0]["actions"][0]["x"].as_f64(), Some(number as f64), "{mark}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_runs_at_once_end_correctly_and_apart() {
    let models = ScriptedModels::start_choosing(next_turn).await;
    let logs = AgentLogs::default();
    let config = Config { models: settings(&models.url()), ..Config::default() };
    let setup = Setup { config, ..Setup::default() };
    let controller = Simulation::boot_with_agent(logs.agents(), setup).await;
    let home = controller.workspace("home").await;
    let names: Vec<String> = (0..RUNS).map(|number| format!("desk-{number}")).collect();
    let computers = join_all(names.iter().map(|name| controller.computer(&home, name))).await;

    let ask = |number: usize, computer: &str| {
        let text = format!("Do {}.", mark(number));
        let body = json!({"computer_id": computer, "messages": [{"role": "user", "content": text}]});
        controller.post("/v1/chat/completions", body)
    };
    models.hold();
    let runs = join_all(computers.iter().enumerate().map(|(number, computer)| ask(number, computer)));
    let while_all_run = async {
        until_counted("runs that wait for the model", || models.open_streams(), RUNS).await;
        let second = ask(0, &computers[0]).await;
        let code = &second.body["error"]["code"];
        assert_eq!((second.status, code), (409, &json!("run_in_progress")), "{}", second.body);
        models.release();
    };
    let (answers, ()) = tokio::join!(runs, while_all_run);
    for (number, (answer, computer)) in answers.iter().zip(&computers).enumerate() {
        check(&controller, answer, number, computer, &logs.of(computer)).await;
    }
    let thread = |answer: &HttpAnswer| answer.body["orgo"]["thread_id"].to_string();
    assert_eq!(answers.iter().map(thread).collect::<BTreeSet<_>>().len(), RUNS, "each has its own thread");
    let requests = models.requests();
    assert_eq!(requests.len(), RUNS * TURNS);
    for request in &requests {
        assert_eq!(marks(&request.body.to_string()).len(), 1, "a run learns of another: {}", request.body);
        assert!(pictures(messages(request)) <= 3, "{}", request.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_has_a_bounded_number_of_runs() {
    let scene = Scene::new((0..MAX_RUNS).map(|_| Turn::silent()).collect()).await;
    let screens: Vec<String> = (0..MAX_RUNS).map(|number| format!("screen-{number}")).collect();
    let start = |screen: &String| scene.stream("go", json!({ "screen": screen }));
    let streams = join_all(screens.iter().map(start)).await;
    scene.until_asked(MAX_RUNS).await;
    let another = || scene.ask("go too", json!({"screen": "another"}));
    let refused = another().await;
    let error = &refused.body["error"];
    assert_eq!(
        (refused.status, &error["type"], &error["code"]),
        (429, &json!("rate_limit_error"), &json!("too_many_runs")),
        "{}",
        refused.body
    );
    scene.models.push(Turn::text("There is room."));
    drop(streams);
    let further = wait::until(TIMEOUT, || async {
        let answer = another().await;
        (answer.status != 429).then_some(answer)
    });
    let further = further.await.expect("the runs end with their clients");
    assert_eq!(further.status, 200, "{}", further.body);
}
