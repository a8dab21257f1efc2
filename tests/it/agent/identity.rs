//! `POST /identity`: a new identity for a restored computer, without traces of its old secrets.
//!
//! The tests run in their own namespaces and without the right to set the clock, because the renewal would
//! otherwise change this machine.

use std::process::Command;
use std::time::Duration;

use futures_util::StreamExt;
use hotdesk::base::clock;
use hotdesk::base::wait;
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;

use super::init::{RunningInit, TOKEN};
use super::stock::SHIM;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::capability::Capability;

const NEW: &str = "the-new-token-of-this-test-5678";
const SEED: &str = "5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed";
/// A host in a mount namespace: its `/etc` is a copy with a host key and a machine-id, its name is `before`.
const HOST: &str = "mount -t tmpfs none /mnt && cp -a /etc /mnt/etc && mount --bind /mnt/etc /etc && \
    mkdir -p /etc/ssh && echo old >/etc/ssh/ssh_host_ed25519_key && echo old >/etc/machine-id && \
    hostname before && exec setpriv --bounding-set=-sys_time \"$@\"";

/// A restored computer under the program of process 1. Prints why and returns `None` without namespaces.
fn start_saved() -> Option<RunningInit> {
    let mut host = Command::new("unshare");
    host.args(["--mount", "--uts", "sh", "-c", HOST, "sh"]);
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "--uts", "sh", "-c", HOST, "sh", "true"]);
    if !probe.status().is_ok_and(|status| status.success()) {
        Capability::Root.skip("mount and UTS namespaces are not available");
        return None;
    }
    host.arg(env!("CARGO_BIN_EXE_hotdesk"));
    Some(RunningInit::start_with(host))
}

fn renewal() -> Value {
    json!({"agent_token": NEW, "unix_ms": clock::now().as_i64(), "seed": SEED, "hostname": "hotdesk-after", "another": true})
}

impl RunningInit {
    async fn renew(&self, token: &str, renewal: Value) -> HttpAnswer {
        fetch_json(self.client.post("http://agent/identity").bearer_auth(token).json(&renewal)).await
    }

    async fn status(&self, token: &str) -> u16 {
        fetch_json(self.client.get("http://agent/health").bearer_auth(token)).await.status
    }

    async fn lines(&self, token: &str, command: &str) -> String {
        let output = self.bash_with(token, command).await;
        output["output"].as_str().unwrap_or_else(|| panic!("{output}")).trim().to_owned()
    }

    async fn socket(&self, channel: &str, token: &str) -> tokio_tungstenite::WebSocketStream<UnixStream> {
        let stream = UnixStream::connect(self.folder.path().join("agent.sock")).await.expect("a connection");
        let url = format!("ws://agent/ws/{channel}?token={token}");
        tokio_tungstenite::client_async(url, stream).await.expect("the upgrade is accepted").0
    }
}

/// The close code of a socket.
async fn closed(socket: &mut tokio_tungstenite::WebSocketStream<UnixStream>) -> u16 {
    let code = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), code).await.expect("the socket closes in time")
}

const NAMES: &str = "hostname; cat /etc/hostname; awk '/^127.0.1.1/{print $2}' /etc/hosts; cat /etc/machine-id; \
    md5sum < /etc/ssh/ssh_host_ed25519_key";

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_agent_knows_the_new_token_alone_also_after_its_end() {
    let Some(init) = start_saved() else { return };
    let before = init.lines(TOKEN, NAMES).await;
    assert!(before.starts_with("before\n"), "{before}");
    // A prepared process can be used again a moment after the answer of its command.
    let used_again = wait::until(Duration::from_secs(20), || async {
        let shim = init.lines(TOKEN, SHIM).await;
        (init.lines(TOKEN, SHIM).await == shim).then_some(shim)
    });
    let shim = used_again.await.expect("a prepared process is used again");
    let answer = init.renew(TOKEN, renewal()).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_ne!(init.lines(NEW, SHIM).await, shim, "no process that was prepared before is used");
    let parts = json!(["token", "clock", "random", "hostname", "machine_id", "host_keys"]);
    assert_eq!((&answer.body["renewed"], &answer.body["failed"]), (&parts, &json!([])), "{}", answer.body);
    // The new time in the request is older by the time of its transfer.
    let clock_offset = answer.body["clock_was_off_ms"].as_i64().expect("a number");
    assert!(
        u128::from(clock_offset.unsigned_abs()) < answer.took.as_millis() + 1000,
        "{clock_offset} in {:?}",
        answer.took
    );
    assert_eq!((init.status(TOKEN).await, init.status(NEW).await), (401, 200));

    let after = init.lines(NEW, NAMES).await;
    let (names, names_before): (Vec<&str>, Vec<&str>) = (after.lines().collect(), before.lines().collect());
    assert_eq!(names[..3], ["hotdesk-after"; 3], "{after}");
    assert!(names[3].len() == 32 && names[3].bytes().all(|byte| byte.is_ascii_hexdigit()), "{after}");
    assert_ne!(names[4], names_before[names_before.len() - 1], "the host key must be new");

    // A client that missed the answer repeats the request: only the host key changes.
    assert_eq!(init.renew(TOKEN, renewal()).await.status, 401);
    let again = init.renew(NEW, renewal()).await;
    assert_eq!((again.status, &again.body["renewed"]), (200, &parts), "{}", again.body);
    assert_eq!(init.lines(NEW, NAMES).await.lines().collect::<Vec<_>>()[..4], names[..4]);

    let pid =
        init.lines(NEW, "awk '/^PPid/{print $2}' /proc/$(awk '/^PPid/{print $2}' /proc/$PPID/status)/status");
    let pid = nix::unistd::Pid::from_raw(pid.await.parse().expect("a process id"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("killed");
    let back = wait::until(Duration::from_secs(20), || async {
        let health = init.client.get("http://agent/health").bearer_auth(NEW).send().await.ok()?;
        (health.status() == 200).then_some(())
    });
    back.await.expect("process 1 must start another agent");
    assert!(init.log().contains("init: the agent ended"), "{}", init.log());
    assert_eq!(init.status(TOKEN).await, 401);
    for secret in [TOKEN, NEW, SEED] {
        assert!(!init.log().contains(secret), "the log contains a secret: {}", init.log());
    }
    assert!(init.log().contains("identity renewed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_opened_with_the_old_token_ends() {
    let Some(init) = start_saved() else { return };
    init.lines(TOKEN, "true").await;
    let mut sockets = Vec::new();
    for channel in ["events", "terminal", "events"] {
        sockets.push(init.socket(channel, TOKEN).await);
    }
    let slow = json!({"command": "while :; do echo > tick; sleep 0.05; done", "timeout": 200});
    let command = fetch_json(init.client.post("http://agent/bash").bearer_auth(TOKEN).json(&slow));
    let tick = init.folder.path().join("home/tick");
    let renewing = async {
        let began = wait::until(Duration::from_secs(20), || async { tick.exists().then_some(()) });
        began.await.expect("the command must begin");
        init.renew(TOKEN, renewal()).await
    };
    let (interrupted, renewed) = tokio::join!(command, renewing);
    assert_eq!((interrupted.status, renewed.status), (401, 200), "{} {}", interrupted.body, renewed.body);
    for socket in &mut sockets {
        assert_eq!(closed(socket).await, 1001);
    }
    assert_eq!(closed(&mut init.socket("events", TOKEN).await).await, 4401);
    // The old sessions' commands have ended. A socket that uses the new token survives the same renewal.
    let mut events = init.socket("events", NEW).await;
    assert_eq!(init.renew(NEW, renewal()).await.status, 200);
    let early = tokio::time::timeout(Duration::from_millis(500), events.next()).await;
    assert!(early.is_err(), "{early:?}");
    let ended = wait::until(Duration::from_secs(30), || async {
        std::fs::remove_file(&tick).ok();
        tokio::time::sleep(Duration::from_millis(500)).await;
        (!tick.exists()).then_some(())
    });
    ended.await.expect("the old command must end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_may_not_be_set_is_told_and_nonsense_changes_nothing() {
    let Some(init) = start_saved() else { return };
    // CAP_SYS_TIME is bit 25: with it, this test would set the clock of this machine.
    let capabilities = init.lines(TOKEN, "awk '/^CapEff/{print $2}' /proc/self/status").await;
    let capabilities = u64::from_str_radix(&capabilities, 16).expect("capabilities");
    assert_eq!(capabilities & 1 << 25, 0, "this test must not have CAP_SYS_TIME");
    for (field, value) in [
        ("agent_token", json!("short")),
        ("agent_token", json!("a token with spaces in it")),
        ("agent_token", json!("x".repeat(1024))),
        ("agent_token", json!(null)),
        ("unix_ms", json!(0)),
        ("unix_ms", json!(-1)),
        ("unix_ms", json!("now")),
        ("seed", json!("5eed")),
        ("seed", json!("z".repeat(64))),
        ("hostname", json!("")),
        ("hostname", json!("a.b")),
        ("hostname", json!("x\n127.0.0.1 evil")),
        ("hostname", json!("x".repeat(64))),
        ("another", json!(1)),
        ("unknown", json!(1)),
    ] {
        let mut renewal = renewal();
        renewal[field] = value.clone();
        let refused = init.renew(TOKEN, renewal).await;
        assert_eq!(refused.status, 400, "{field} {value}: {}", refused.body);
        assert!(!refused.body.to_string().contains(NEW), "{}", refused.body);
    }
    assert_eq!((init.status(TOKEN).await, init.lines(TOKEN, "hostname").await.as_str()), (200, "before"));

    let mut renewal = renewal();
    renewal["unix_ms"] = json!(clock::now().as_i64() + 3_600_000);
    renewal["another"] = json!(false);
    let answer = init.renew(TOKEN, renewal).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.body["renewed"], json!(["token", "random", "hostname"]));
    let failed = answer.body["failed"].as_array().expect("a list");
    let reason = failed[0].as_str().unwrap_or_default();
    assert!(failed.len() == 1 && reason.starts_with("clock: EPERM"), "{failed:?}");
    let clock_offset = answer.body["clock_was_off_ms"].as_i64().expect("a number");
    assert!((-3_600_500..-3_590_000).contains(&clock_offset), "{clock_offset}");
    assert_eq!(init.lines(NEW, "cat /etc/machine-id").await, "old");
}
