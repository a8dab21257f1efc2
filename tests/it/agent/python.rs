//! Python code: results, exceptions and timeouts, all with status 200 (docs/api/actions.md).

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::agent::{RunningAgent, gone};

#[tokio::test(flavor = "multi_thread")]
async fn code_runs_as_main_and_its_output_is_told() {
    let agent = RunningAgent::headless().await;
    for (code, output) in [
        ("print(1+1)", "2\n"),
        ("print(__name__)", "__main__\n"),
        ("if __name__ == '__main__':\n    print('main')", "main\n"),
        ("import sys\nprint('a'); sys.stderr.write('b\\n'); print('c')", "a\nb\nc\n"),
        ("import os\nprint(os.getcwd() == os.path.expanduser('~'))", "True\n"),
        ("import sys\nprint(sys.argv, sys.stdin.read() == '')", "['<exec>'] True\n"),
        ("def f(n): return n and n + f(n-1)\nprint(f(10))", "55\n"),
        ("import pickle\nclass A: x = 1\nprint(pickle.loads(pickle.dumps(A())).x)", "1\n"),
        ("import sys\nsys.exit()", ""),
        ("import os\nos._exit(0)", ""),
        ("print('é€😀')", "é€😀\n"),
        ("# only a comment", ""),
        ("", ""),
        (
            "import atexit, threading, time\natexit.register(print, 'bye')\nthreading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
            "late\nbye\n",
        ),
    ] {
        let answer = agent.exec(code).await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.body,
            json!({"output": output, "stdout": answer.body["stdout"], "stderr": answer.body["stderr"], "success": true,
                "action": "exec", "timeout": false}),
            "{code}"
        );
    }
    let long = format!("x = '{}'\nprint(len(x))", "y".repeat(1_000_000));
    assert_eq!(agent.exec(&long).await.body["output"], json!("1000000\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_name_the_exception_and_show_the_codes_own_lines() {
    let agent = RunningAgent::headless().await;
    for (code, kind, error) in [
        ("raise ValueError('no')", "ValueError", "no"),
        ("print('first')\n1/0", "ZeroDivisionError", "division by zero"),
        ("input()", "EOFError", "EOF when reading a line"),
        ("import sys\nsys.exit(3)", "SystemExit", "3"),
        ("import sys\nsys.exit('bad end')", "SystemExit", "bad end"),
        ("import os\nos._exit(4)", "SystemExit", "python3 ended with status 4"),
        ("import os\nos.kill(os.getpid(), 9)", "Killed", "python3 was ended by signal 9"),
        (
            "class Odd(Exception):\n  def __str__(self): raise RuntimeError\nraise Odd",
            "Odd",
            "the exception cannot be shown",
        ),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("x = (", "SyntaxError", "'(' was never closed (<exec>, line 1)"),
        ("import nothing_of_that_name", "ModuleNotFoundError", "No module named 'nothing_of_that_name'"),
        (
            "import os\nfor fd in range(3, 256):\n  try: os.close(fd)\n  except OSError: pass\nraise OSError('x')",
            "SystemExit",
            "python3 ended with status 1",
        ),
    ] {
        let answer = agent.exec(code).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body["success"], json!(false), "{code}");
        assert_eq!(answer.body["timeout"], json!(false), "{code}");
        assert_eq!(answer.body["error_type"], json!(kind), "{code}");
        assert_eq!(answer.body["error"], json!(error), "{code}");
    }
    let output =
        agent.exec("def f():\n    raise ValueError('no')\nprint('first')\nf()").await.body["output"].clone();
    let expected = "first\nTraceback (most recent call last):\n  File \"<exec>\", line 4, in <module>\n    f()\n  File \"<exec>\", line 2, in f\n    raise ValueError('no')\nValueError: no\n";
    assert_eq!(output, Value::from(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_takes_too_long_is_ended_with_all_that_it_started() {
    let agent = RunningAgent::headless().await;
    let code = "import subprocess, time
child = subprocess.Popen(['sleep', '1000'], start_new_session=True)
print('so far')
open('child', 'w').write(str(child.pid))
time.sleep(1000)";
    let answer = agent.post("/exec", json!({"code": code, "timeout": 10})).await;
    assert_eq!(answer.status, 200);
    // A second plus the delay of a loaded machine; a surviving child would delay the answer by minutes.
    assert!(
        answer.took >= Duration::from_secs(10) && answer.took < Duration::from_secs(15),
        "took {:?}",
        answer.took
    );
    assert_eq!((&answer.body["timeout"], &answer.body["success"]), (&json!(true), &json!(false)));
    assert_eq!(answer.body["output"], json!("so far\n"));
    assert!(answer.body["error"].is_string());
    assert!(gone(&agent.file("child").await).await);
    for body in [
        json!({}),
        json!({"code": 5}),
        json!({"code": null}),
        json!({"code": "1", "timeout": 0.5}),
        json!({"code": "1", "timeout": 301}),
        json!({"code": "1", "timeout": "9"}),
    ] {
        assert_eq!(agent.post("/exec", body.clone()).await.status, 400, "{body}");
    }
}
