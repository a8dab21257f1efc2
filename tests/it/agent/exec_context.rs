//! Execution context of commands: folder, environment, standard input, screen and output streams.

use serde_json::{Value, json};

use crate::harness::agent::RunningAgent;

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_told_apart_and_together_in_the_order_of_writing() {
    let agent = RunningAgent::headless().await;
    let answer = agent.bash("for i in $(seq 1 2 3999); do echo $i; echo $((i+1)) >&2; done").await.body;
    let lines = |step: usize, from: usize| -> String {
        (from..=4000).step_by(step).map(|number| format!("{number}\n")).collect()
    };
    assert_eq!(answer["output"], json!(lines(1, 1)));
    assert_eq!((&answer["stdout"], &answer["stderr"]), (&json!(lines(2, 1)), &json!(lines(2, 2))));
    let code = "import os\nfor i in range(3000):\n  os.write(1 + i % 2, b'%d\\n' % i)";
    let answer = agent.exec(code).await.body;
    let expected: String = (0..3000).map(|number| format!("{number}\n")).collect();
    assert_eq!(answer["output"], json!(expected));
    assert!(answer["stderr"].as_str().unwrap().starts_with("1\n3\n"), "{}", answer["stderr"]);
    for command in ["echo a > /dev/stderr", "echo a >&2", "exec >/dev/null; echo a > /proc/self/fd/2"] {
        let answer = agent.bash(command).await.body;
        assert_eq!((&answer["stdout"], &answer["stderr"]), (&json!(""), &json!("a\n")), "{command}");
    }
    let one = agent.bash("{ echo a; echo b >&2; } 2>&1").await.body;
    assert_eq!((&one["stdout"], &one["stderr"]), (&json!("a\nb\n"), &json!("")));
    let closed = agent.bash("exec >&-; echo left >&2; sleep 0.2; echo more >&2").await.body;
    assert_eq!((&closed["output"], &closed["stdout"]), (&json!("left\nmore\n"), &json!("")));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stream_is_bounded_by_itself() {
    let agent = RunningAgent::headless().await;
    let answer =
        agent.bash("echo small; head -c 3000000 /dev/zero | tr '\\0' e >&2; echo end >&2").await.body;
    assert_eq!(answer["stdout"], json!("small\n"));
    assert!(answer["stdout_omitted_bytes"].is_null());
    let retained = 256 * 1024;
    assert_eq!(answer["stderr_omitted_bytes"], json!(3_000_004 - retained));
    assert_eq!(answer["omitted_bytes"], json!(3_000_010 - 4 * retained));
    let stderr = answer["stderr"].as_str().unwrap();
    assert!(stderr.starts_with("eee") && stderr.ends_with("eeend\n"));
    assert!(answer["output"].as_str().unwrap().starts_with("small\neee"));
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_environment_and_standard_input_are_what_the_request_says() {
    let agent = RunningAgent::headless().await;
    std::fs::create_dir(agent.home().join("in")).unwrap();
    let run = async |body: Value| agent.post("/bash", body).await.body;
    let answer =
        run(json!({"command": "pwd; echo $A-$B-$HOME", "cwd": "in", "env": {"A": "1 2", "B": "ü=\n"}})).await;
    let home = agent.home();
    assert_eq!(answer["output"], json!(format!("{}/in\n1 2-ü= -{}\n", home.display(), home.display())));
    assert_eq!(run(json!({"command": "pwd", "cwd": "/"})).await["output"], json!("/\n"));
    assert_eq!(run(json!({"command": "echo $PATH", "env": {"PATH": "/x"}})).await["output"], json!("/x\n"));
    // A command cannot choose the value of its own mark.
    let mark = run(json!({"command": "echo $HOTDESK_COMMAND", "env": {"HOTDESK_COMMAND": "x"}})).await;
    assert_ne!(mark["output"], json!("x\n"));
    let read = run(json!({"command": "read a; echo \"[$a]\"; cat; cat", "stdin": "one\ntwo\nthree"})).await;
    assert_eq!(read["output"], json!("[one]\ntwo\nthree"));
    let long = "y".repeat(1_500_000);
    assert_eq!(run(json!({"command": "wc -c", "stdin": long})).await["output"], json!("1500000\n"));
    assert_eq!(run(json!({"command": "sleep 0.1; exit 4", "stdin": long})).await["exit_code"], json!(4));
    let python = json!({"code": "import os\nprint(input(), os.getcwd(), os.environ['A'])", "stdin": "hi\n", "cwd": "/",
        "env": {"A": "b"}});
    assert_eq!(agent.post("/exec", python).await.body["output"], json!("hi / b\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn surroundings_that_cannot_be_are_refused() {
    let agent = RunningAgent::headless().await;
    std::fs::write(agent.home().join("file"), "").unwrap();
    let huge = json!({"A": "x".repeat(65_536)});
    let many: Value =
        (0..257).map(|number| (format!("V{number}"), json!(""))).collect::<serde_json::Map<_, _>>().into();
    for extra in [
        json!({"cwd": "missing"}),
        json!({"cwd": "/nowhere"}),
        json!({"cwd": "file"}),
        json!({"cwd": ""}),
        json!({"cwd": "/\u{0}"}),
        json!({"cwd": 5}),
        json!({"env": {"A=B": "x"}}),
        json!({"env": {"A\u{0}": "x"}}),
        json!({"env": {"": "x"}}),
        json!({"env": {"A": "x\u{0}"}}),
        json!({"env": {"A": 5}}),
        json!({"env": ["A=B"]}),
        json!({"env": huge}),
        json!({"env": many}),
        json!({"stdin": 5}),
    ] {
        for (path, name, value) in
            [("/bash", "command", "true"), ("/exec", "code", "1"), ("/processes", "command", "true")]
        {
            let mut body = extra.clone();
            body[name] = json!(value);
            let answer = agent.post(path, body.clone()).await;
            assert_eq!(
                answer.status,
                400,
                "{path} {}",
                extra.to_string().chars().take(80).collect::<String>()
            );
        }
    }
    for (path, name, value) in
        [("/bash", "command", "true"), ("/exec", "code", "1"), ("/processes", "command", "true")]
    {
        let body = json!({name: value, "screen": "screen-100"});
        assert_eq!(agent.post(path, body).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_reaches_the_screen_that_it_names() {
    let Some(agent) = RunningAgent::with_screen().await else { return };
    let screens = hotdesk::base::wait::until(std::time::Duration::from_secs(20), || async {
        let created = agent.post("/screens", json!({})).await;
        (created.status == 200).then_some(created.body)
    });
    let created = screens.await.expect("a second screen");
    let boot = agent.bash("echo $DISPLAY").await.body["output"].clone();
    for (screen, display) in [
        (created["id"].clone(), created["display"].clone()),
        (json!("default"), json!(boot.as_str().unwrap().trim())),
    ] {
        let answer = agent.post("/bash", json!({"command": "echo $DISPLAY", "screen": screen})).await.body;
        assert_eq!(answer["output"], json!(format!("{}\n", display.as_str().unwrap())));
        let answer = agent
            .post("/exec", json!({"code": "import os; print(os.environ['DISPLAY'])", "screen": screen}))
            .await;
        assert_eq!(answer.body["output"], json!(format!("{}\n", display.as_str().unwrap())));
    }
    let own = json!({"command": "echo $DISPLAY", "screen": created["id"], "env": {"DISPLAY": ":5"}});
    assert_eq!(agent.post("/bash", own).await.body["output"], json!(":5\n"));
    assert_eq!(agent.post("/bash", json!({"command": "true", "screen": "no"})).await.status, 404);
}
