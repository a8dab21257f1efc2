//! Python sessions: state between calls, serial calls, and complete removal.

use std::cell::Cell;
use std::time::Duration;

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, RunningAgent, alive, fetch_json, gone};

/// Longest time for an expected change on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn run(agent: &RunningAgent, name: &str, code: &str) -> Value {
    let answer = agent.post("/exec", json!({"code": code, "session": name})).await;
    assert_eq!(answer.status, 200, "{code}: {}", answer.body);
    answer.body
}

async fn delete(agent: &RunningAgent, name: &str) -> HttpAnswer {
    fetch_json(agent.request(Method::DELETE, &format!("/sessions/{name}"))).await
}

async fn sessions(agent: &RunningAgent) -> Vec<Value> {
    agent.get("/sessions").await.body["sessions"].as_array().expect("a list").clone()
}

async fn busy(agent: &RunningAgent, name: &str) -> bool {
    sessions(agent).await.iter().any(|session| session["name"] == name && session["busy"] == true)
}

/// Keeps a session busy until the file `go` exists.
async fn occupy(agent: &RunningAgent, name: &str) {
    let code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)";
    let held = agent.post("/exec", json!({"code": code, "session": name, "timeout": 100})).await;
    assert_eq!((held.status, &held.body["success"]), (200, &json!(true)), "{}", held.body);
}

async fn until_busy(agent: &RunningAgent, name: &str) {
    let found = wait::until(TIMEOUT, || async { busy(agent, name).await.then_some(()) });
    assert!(found.await.is_some(), "{name} must become busy");
}

#[tokio::test(flavor = "multi_thread")]
async fn state_stays_between_calls_and_apart_between_sessions() {
    let agent = RunningAgent::headless().await;
    let first = run(&agent, "a", "import os\nx = 1\ndef f(): return x + 1\nprint('set', end='')").await;
    assert_eq!((&first["output"], &first["success"]), (&json!("set"), &json!(true)));
    assert_eq!((&first["session"], &first["session_started"]), (&json!("a"), &json!(true)));
    assert_eq!(first["session_ended"], json!(false));
    let second = run(&agent, "a", "x += 1\nprint(f(), __name__)").await;
    assert_eq!((&second["output"], &second["session_started"]), (&json!("3 __main__\n"), &json!(false)));
    let other = run(&agent, "b", "x").await;
    assert_eq!((&other["error_type"], &other["session_started"]), (&json!("NameError"), &json!(true)));
    let streams =
        run(&agent, "a", "import sys\nfor i in range(500):\n  os.write(1 + i % 2, b'%d ' % i)").await;
    let whole: String = (0..500).map(|number| format!("{number} ")).collect();
    assert_eq!(streams["output"], json!(whole));
    assert!(streams["stderr"].as_str().unwrap().starts_with("1 3 5 "));
    let classes =
        run(&agent, "a", "import pickle\nclass A: y = 5\nprint(pickle.loads(pickle.dumps(A())).y)").await;
    assert_eq!(classes["output"], json!("5\n"));
    let listed = sessions(&agent).await;
    assert_eq!(listed.len(), 2);
    assert_eq!(
        (&listed[0]["name"], &listed[0]["calls"], &listed[0]["busy"]),
        (&json!("a"), &json!(4), &json!(false))
    );
    assert!(alive(&listed[0]["pid"].to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncaught_exception_keeps_the_session() {
    let agent = RunningAgent::headless().await;
    run(&agent, "s", "x = 7\ndef f():\n    raise ValueError('no')").await;
    let failed = run(&agent, "s", "print('first')\nf()").await;
    assert_eq!((&failed["success"], &failed["error_type"]), (&json!(false), &json!("ValueError")));
    assert_eq!((&failed["error"], &failed["session_ended"]), (&json!("no"), &json!(false)));
    let expected = "first\nTraceback (most recent call last):\n  File \"<exec 2>\", line 2, in <module>\n    f()\n  File \"<exec 1>\", line 3, in f\n    raise ValueError('no')\nValueError: no\n";
    assert_eq!(failed["output"], json!(expected));
    for (code, kind) in [
        ("raise KeyboardInterrupt", json!("KeyboardInterrupt")),
        ("import sys\nsys.exit(3)", json!("SystemExit")),
        ("sys.exit()", Value::Null),
        ("x = (", json!("SyntaxError")),
        ("class Odd(Exception):\n  def __str__(self): raise RuntimeError\nraise Odd", json!("Odd")),
        ("import os\nif os.fork() == 0: raise OSError('child')\nos.wait()", Value::Null),
        ("sys.stdout.close()", Value::Null),
        ("sys.stdout = open(1, 'w', closefd=False)", Value::Null),
    ] {
        let answer = run(&agent, "s", code).await;
        assert_eq!(
            (&answer["error_type"], &answer["session_ended"]),
            (&kind, &json!(false)),
            "{code}: {answer}"
        );
    }
    assert_eq!(run(&agent, "s", "print(x)").await["output"], json!("7\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_each_call_s_own() {
    let agent = RunningAgent::headless().await;
    let run_with_stdin = async |code: &str, stdin: Option<&str>| {
        let body = json!({"code": code, "session": "s", "stdin": stdin});
        agent.post("/exec", body).await.body
    };
    assert_eq!(run_with_stdin("print(input(), input())", Some("a\nb\nc")).await["output"], json!("a b\n"));
    assert_eq!(run_with_stdin("input()", None).await["error_type"], json!("EOFError"));
    let child = run_with_stdin("import subprocess\nsubprocess.run(['cat'])", Some("for the child")).await;
    assert_eq!(child["output"], json!("for the child"));
    let long = "z".repeat(1_000_000);
    assert_eq!(
        run_with_stdin("import sys\nprint(len(sys.stdin.read()))", Some(&long)).await["output"],
        json!("1000000\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_past_its_time_ends_the_session_with_all_that_it_started() {
    let agent = RunningAgent::headless().await;
    run(&agent, "s", "import subprocess, time\nx = 1").await;
    let code = "earlier = subprocess.Popen(['setsid', '-f', 'sh', '-c', 'echo $$ > daemon; sleep 1000'])
child = subprocess.Popen(['sleep', '1000'], start_new_session=True)
open('child', 'w').write(str(child.pid))
while True:
  try: time.sleep(1000)
  except BaseException: pass";
    let body = json!({"code": format!("print('so far')\n{code}"), "session": "s", "timeout": 10});
    let answer = agent.post("/exec", body).await;
    // A second plus the delay of a loaded machine; surviving children would delay the answer by minutes.
    assert!(
        answer.took >= Duration::from_secs(10) && answer.took < Duration::from_secs(15),
        "took {:?}",
        answer.took
    );
    assert_eq!((&answer.body["timeout"], &answer.body["session_ended"]), (&json!(true), &json!(true)));
    assert_eq!(
        (&answer.body["success"], &answer.body["error_type"]),
        (&json!(false), &json!("TimeoutError"))
    );
    assert_eq!(answer.body["output"], json!("so far\n"));
    for name in ["child", "daemon"] {
        assert!(gone(&agent.file(name).await).await, "{name} must end");
    }
    assert_eq!(sessions(&agent).await, Vec::<Value>::new());
    let fresh = run(&agent, "s", "print('x' in globals())").await;
    assert_eq!((&fresh["output"], &fresh["session_started"]), (&json!("False\n"), &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_itself_says_so_and_leaves_nothing() {
    let agent = RunningAgent::headless().await;
    for (code, kind, error) in [
        ("os._exit(0)", "SystemExit", "python3 ended with status 0"),
        ("os._exit(4)", "SystemExit", "python3 ended with status 4"),
        ("os.kill(os.getpid(), 9)", "Killed", "python3 was ended by signal 9"),
        (
            "for fd in range(3, 64):\n  try: os.close(fd)\n  except OSError: pass",
            "SystemExit",
            "python3 ended with status 1",
        ),
    ] {
        let start =
            "import os, subprocess\nchild = subprocess.Popen(['setsid', 'sleep', '1000'])\nprint(child.pid)";
        let child = run(&agent, "s", start).await["output"].as_str().unwrap().to_owned();
        let answer = run(&agent, "s", &format!("print('bye', flush=True)\n{code}")).await;
        assert_eq!(
            (&answer["session_ended"], &answer["success"]),
            (&json!(true), &json!(false)),
            "{code}: {answer}"
        );
        assert_eq!((&answer["error_type"], &answer["error"]), (&json!(kind), &json!(error)), "{code}");
        assert!(answer["output"].as_str().unwrap().starts_with("bye\n"), "{code}: {answer}");
        assert!(gone(&child).await, "{code}: its child must end");
    }
    // The same between two calls.
    run(&agent, "s", "import os, threading\nthreading.Timer(0.2, os._exit, [3]).start()").await;
    let empty = wait::until(TIMEOUT, || async { sessions(&agent).await.is_empty().then_some(()) });
    assert!(empty.await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_session_run_one_after_another() {
    let agent = RunningAgent::headless().await;
    run(&agent, "s", "import time\nlog = []").await;
    let codes: Vec<String> = (0..5)
        .map(|number| format!("log.append('in'); time.sleep(0.1); log.append('out'); print({number})"))
        .collect();
    let answer = futures_util::future::join_all(codes.iter().map(|code| run(&agent, "s", code))).await;
    for (number, answer) in answer.iter().enumerate() {
        assert_eq!(answer["output"], json!(format!("{number}\n")), "each call must get its own output");
    }
    assert_eq!(run(&agent, "s", "print(log == ['in', 'out'] * 5)").await["output"], json!("True\n"));
    // While one session is busy, another answers.
    let quick = async {
        until_busy(&agent, "s").await;
        assert_eq!(run(&agent, "other", "print(1)").await["output"], json!("1\n"));
        assert!(busy(&agent, "s").await, "the answer must not wait for the busy session");
        std::fs::write(agent.home().join("go"), "").unwrap();
    };
    tokio::join!(occupy(&agent, "s"), quick);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_those_who_wait_are_bounded() {
    let agent = RunningAgent::headless().await;
    for number in 0..8 {
        run(&agent, &format!("s{number}"), "import time").await;
    }
    let beyond_limit = agent.post("/exec", json!({"code": "1", "session": "s8"})).await;
    assert_eq!((beyond_limit.status, &beyond_limit.body["code"]), (503, &json!("too_many_sessions")));
    assert_eq!(
        agent.exec("print(1)").await.body["output"],
        json!("1\n"),
        "calls without a session are not limited"
    );
    let refusals = Cell::new(0_usize);
    let answers = async {
        until_busy(&agent, "s0").await;
        let requests = (0..12).map(|_| async {
            let answer = agent.post("/exec", json!({"code": "print(2)", "session": "s0"})).await;
            refusals.set(refusals.get() + usize::from(answer.status != 200));
            if refusals.get() == 4 {
                std::fs::write(agent.home().join("go"), "").unwrap();
            }
            answer
        });
        futures_util::future::join_all(requests).await
    };
    let ((), answers) = tokio::join!(occupy(&agent, "s0"), answers);
    let (served, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((served.len(), refused.len()), (8, 4));
    assert!(refused.iter().all(|answer| answer.status == 503 && answer.body["code"] == "session_busy"));
    assert_eq!(delete(&agent, "s1").await.status, 200);
    assert_eq!(agent.post("/exec", json!({"code": "1", "session": "s8"})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_is_gone_with_its_children_and_its_caller_learns_it() {
    let agent = RunningAgent::headless().await;
    let code = "import subprocess, time\nchild = subprocess.Popen(['setsid', 'sleep', '1000'])\nopen('child', 'w').write(str(child.pid))\ntime.sleep(100)";
    let asking = agent.post("/exec", json!({"code": code, "session": "s", "timeout": 100}));
    let deleting = async {
        let child = agent.file("child").await;
        assert_eq!(delete(&agent, "s").await.status, 200);
        assert!(gone(&child).await);
    };
    let (interrupted, ()) = tokio::join!(asking, deleting);
    assert_eq!((interrupted.status, &interrupted.body["code"]), (409, &json!("session_ended")));
    assert_eq!(delete(&agent, "s").await.status, 404);
    for bad in ["a/b", "", "a b", "..", "ü", &"x".repeat(65)] {
        assert_eq!(agent.post("/exec", json!({"code": "1", "session": bad})).await.status, 400, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_ends_its_session() {
    let agent = RunningAgent::headless().await;
    let body = json!({"code": "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(1000)",
        "session": "s", "timeout": 300});
    let request = agent.request(Method::POST, "/exec").json(&body).send();
    tokio::select! {
        answer = request => panic!("answered: {answer:?}"),
        _ = agent.file("pid") => {}
    }
    assert!(gone(&agent.file("pid").await).await);
    assert_eq!(run(&agent, "s", "1").await["session_started"], json!(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn surroundings_are_the_session_s_own() {
    let agent = RunningAgent::headless().await;
    let run_with_stdin = |code: &str, cwd: Option<&str>, env: Option<Value>| {
        let body = json!({"code": code, "session": "s", "cwd": cwd, "env": env});
        agent.post("/exec", body)
    };
    let code = "import os\nprint(os.getcwd(), os.environ['A'])";
    assert_eq!(run_with_stdin(code, Some("/"), Some(json!({"A": "1"}))).await.body["output"], json!("/ 1\n"));
    assert_eq!(run_with_stdin(code, None, None).await.body["output"], json!("/ 1\n"));
    assert_eq!(run_with_stdin(code, Some("/"), Some(json!({"A": "1"}))).await.body["output"], json!("/ 1\n"));
    assert_eq!(run_with_stdin(code, Some("/tmp"), None).await.status, 409);
    assert_eq!(run_with_stdin(code, None, Some(json!({"A": "2"}))).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_is_ended_and_one_in_use_is_not() {
    let agent = RunningAgent::with(&["--display", "none", "--session-idle", "10"]).await;
    let pid = run(&agent, "s", "import os, time, threading\nprint(os.getpid())").await["output"].clone();
    // Output of a background thread does not count as a call.
    run(
        &agent,
        "s",
        "def talk():\n  while True: print('.'); time.sleep(0.1)\nthreading.Thread(target=talk).start()",
    )
    .await;
    let body = json!({"code": "time.sleep(12)\nprint('done')", "session": "s", "timeout": 60});
    let busy = agent.post("/exec", body).await.body;
    assert_eq!((&busy["session_ended"], &busy["session_started"]), (&json!(false), &json!(false)), "{busy}");
    let empty =
        wait::until(Duration::from_secs(60), || async { sessions(&agent).await.is_empty().then_some(()) });
    assert!(empty.await.is_some());
    assert!(gone(pid.as_str().unwrap()).await);
}
