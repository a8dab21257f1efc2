//! One desktop through the API of every engine that saves memory: suspend, fork, launch and rollback.
//!
//! A boot of a desktop takes tens of seconds where processors are emulated, so one desktop goes through all.

use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use hotdesk::base::wait;
use serde_json::{Value, json};

use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::picture;

/// Longest time for a program to start and to read typed text: system calls are slow, or processors are
/// emulated.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Starts a terminal window whose program records what it reads, and a counter without a window. The counter pauses without
/// a process for it: under emulation and gVisor a process each tenth of a second keeps the computer busy.
const PROGRAMS: &str = "cat >/root/read.sh <<'END'\n\
    touch /root/reads\n\
    while read line; do echo $line >>/root/typed; done\n\
    END\n\
    DISPLAY=:99 setsid xterm -geometry 80x20+100+80 -e bash /root/read.sh >/dev/null 2>&1 &\n\
    setsid bash -c 'exec 9<> <(:); while :; do echo $((++i)) >/root/count; read -t 0.1 -u 9; done' >/dev/null 2>&1 &";

/// Waits for the terminal window and its program.
async fn wait_for_terminal(controller: &RunningController, id: &str) {
    let found = wait::until(TIMEOUT, || async {
        let windows = controller.get(&format!("/computers/{id}/windows")).await.body;
        let ready_file = controller.bash(id, "ls /root/reads 2>/dev/null || true").await;
        (windows.to_string().contains("\"XTerm\"") && !ready_file.trim().is_empty()).then_some(())
    });
    assert!(found.await.is_some(), "a window");
}

/// Clicks into the terminal window until it has the focus, types a line, and waits until the program has read
/// `all`.
async fn type_line(controller: &RunningController, id: &str, line: &str, all: &str) {
    let focused = wait::until(TIMEOUT, || async {
        let clicked = controller.act(id, "click", json!({"x": 300, "y": 200})).await;
        assert_eq!(clicked.status, 200, "{}", clicked.body);
        let windows = controller.get(&format!("/computers/{id}/windows")).await.body;
        let all = windows["windows"].as_array().expect("windows");
        all.iter().any(|window| window["class"] == "XTerm" && window["focused"] == true).then_some(())
    });
    assert!(focused.await.is_some(), "the window must get the focus");
    let typed = controller.act(id, "type", json!({"text": format!("{line}\n")})).await;
    assert_eq!(typed.status, 200, "{}", typed.body);
    let typed_lines = wait::until(TIMEOUT, || async {
        (controller.bash(id, "cat /root/typed 2>/dev/null || true").await.trim() == all).then_some(())
    });
    assert!(typed_lines.await.is_some(), "the program must read the typed lines");
}

async fn check_screenshot(controller: &RunningController, id: &str) {
    let path = format!("/computers/{id}/screenshot?response_format=binary");
    let shot = controller.request(reqwest::Method::GET, &path).send().await.expect("an answer");
    assert_eq!(shot.status(), 200);
    assert_eq!(picture::size(&shot.bytes().await.expect("a picture")), (1280, 720));
}

/// Difference of the computer's clock to this machine's clock in seconds, reduced by the time of the
/// measurement.
async fn clock_offset(controller: &RunningController, id: &str) -> f64 {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let before = now();
    let found: f64 = controller.bash(id, "date +%s.%N").await.trim().parse().expect("a time");
    (before - found).max(found - now()).max(0.0)
}

/// Last value of the counter. The file is empty for a moment during each write.
async fn count(controller: &RunningController, id: &str) -> u64 {
    let value =
        wait::until(TIMEOUT, || async { controller.bash(id, "cat /root/count").await.trim().parse().ok() });
    value.await.expect("the counter file has a value")
}

/// Waits until the counter has advanced.
async fn wait_for_count(controller: &RunningController, id: &str) -> u64 {
    let before = count(controller, id).await;
    let later = wait::until(TIMEOUT, || async {
        let now = count(controller, id).await;
        (now > before).then_some(now)
    });
    later.await.expect("the counter advances")
}

/// Prints the start times of process 1 and of the counter.
const START_TIMES: &str =
    "cut -d' ' -f22 /proc/1/stat; cut -d' ' -f22 /proc/$(pgrep -of 'echo .*count')/stat";

/// A desktop whose programs run, with a controller over any engine.
pub struct Desktop {
    pub controller: RunningController,
    pub id: String,
    /// Commands that print what identifies a computer to its programs, one line each.
    identity: &'static [&'static str],
    /// The lines that were typed into the terminal.
    typed: String,
    /// The start times of process 1 and of the counter.
    since: String,
}

impl Desktop {
    /// Creates a computer, of a template if there is one, and starts its programs.
    pub async fn start(
        controller: RunningController,
        identity: &'static [&'static str],
        template: Option<&str>,
    ) -> Self {
        let workspace = controller.workspace("demo").await;
        let began = Instant::now();
        let body = json!({"workspace_id": workspace, "name": "one", "template_ref": template});
        let id = id_of(&controller.create("/computers", body).await);
        println!("a desktop: created in {:?}", began.elapsed());
        check_screenshot(&controller, &id).await;
        controller.bash(&id, PROGRAMS).await;
        wait_for_terminal(&controller, &id).await;
        type_line(&controller, &id, "before", "before").await;
        let since = controller.bash(&id, START_TIMES).await;
        Self { controller, id, identity, typed: "before".to_owned(), since }
    }

    async fn password(&self) -> Value {
        self.controller.get(&format!("/computers/{}/vnc-password", self.id)).await.body["password"].clone()
    }

    /// Asserts that a computer continues from this desktop's state after `count`, and accepts input.
    async fn expect_continued(&self, id: &str, count: u64) {
        let offset = clock_offset(&self.controller, id).await;
        assert!(offset < 0.5, "clock offset of {offset} s on {id}");
        assert!(wait_for_count(&self.controller, id).await > count, "the counter continues on {id}");
        assert_eq!(self.controller.bash(id, START_TIMES).await, self.since, "the same processes");
        type_line(&self.controller, id, id, &format!("{}\n{id}", self.typed)).await;
        check_screenshot(&self.controller, id).await;
    }

    /// What identifies a computer to its programs and to clients.
    async fn identity_of(&self, id: &str) -> Vec<String> {
        // In one request, because each costs an emulated computer half a second.
        let outputs = self.controller.bash(id, &self.identity.join("; echo ,; ")).await;
        let mut identity: Vec<String> = outputs.split(",\n").map(str::to_owned).collect();
        assert_eq!(identity.len(), self.identity.len(), "{outputs}");
        let record = self.controller.record(id).await;
        identity.extend(["vnc_password", "instance_id", "ip"].map(|own| record[own].to_string()));
        assert!(identity.iter().all(|text| !text.trim().is_empty() && text != "null"), "{identity:?}");
        identity
    }

    /// Asserts that nothing identifies another computer as this one.
    pub async fn expect_another(&self, id: &str) {
        for (own, other) in self.identity_of(&self.id).await.into_iter().zip(self.identity_of(id).await) {
            assert_ne!(own, other);
        }
    }

    /// Suspends and resumes the desktop repeatedly: its programs continue, and its password changes. With two
    /// rounds or more the controller is killed before the second resume; with three an action causes the
    /// third.
    pub async fn check_suspends(&mut self, rounds: usize) {
        let mut before = self.password().await;
        for round in 0..rounds {
            let began = Instant::now();
            let suspended = self.controller.act(&self.id, "suspend", json!({})).await;
            let seen = (suspended.status, &suspended.body["status"]);
            assert_eq!(seen, (200, &json!("suspended")), "{}", suspended.body);
            let took = began.elapsed();
            // Operators see the pause apart from the length.
            let log = self.controller.log();
            for line in ["a guest stood still while its memory was saved", "suspended a machine"] {
                assert!(log.contains(line), "{line}: {log}");
            }
            let bytes: u64 = std::fs::read_dir(self.controller.machine(&self.id).join("memory"))
                .expect("memory")
                .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
                .sum();
            if round == 1 {
                // A suspended computer needs no controller.
                self.controller.kill();
                self.controller.start_again().await;
                let path = format!("/computers/{}/suspension", self.id);
                assert_eq!(self.controller.get(&path).await.body["status"], "suspended");
            }
            if round < 2 {
                let began = Instant::now();
                let resumed = self.controller.act(&self.id, "resume", json!({})).await;
                assert_eq!(resumed.status, 200, "{}", resumed.body);
                println!("suspended in {took:?}, {bytes} bytes, resumed in {:?}", began.elapsed());
            }
            let counted = count(&self.controller, &self.id).await;
            let offset = clock_offset(&self.controller, &self.id).await;
            assert!(offset < 0.5, "clock offset of {offset} s");
            self.typed += "\nafter";
            type_line(&self.controller, &self.id, "after", &self.typed).await;
            assert_ne!(count(&self.controller, &self.id).await, counted, "the counter must advance");
            assert_eq!(self.controller.bash(&self.id, START_TIMES).await, self.since, "the same processes");
            let now = self.password().await;
            assert_ne!(now, before, "the password must change");
            before = now;
        }
    }

    /// Forks the running desktop: both continue, and the fork has another identity. Returns the fork,
    /// suspended.
    pub async fn check_fork(&mut self) -> String {
        let record = self.controller.record(&self.id).await;
        let before = wait_for_count(&self.controller, &self.id).await;
        let began = Instant::now();
        let forked = self.controller.act(&self.id, "fork", json!({})).await;
        println!("a desktop: forked in {:?}", began.elapsed());
        assert_eq!((forked.status, &forked.body["name"]), (201, &json!("one (fork)")), "{}", forked.body);
        let fork = id_of(&forked.body);

        let now = self.controller.record(&self.id).await;
        for own in ["status", "vnc_password", "instance_id", "ip"] {
            assert_eq!(now[own], record[own], "the source keeps its {own}");
        }
        self.expect_continued(&fork, before).await;
        let hostname = self.controller.bash(&fork, "hostname").await;
        assert_eq!(hostname.trim(), format!("hotdesk-{}", &fork[..8]));
        self.expect_another(&fork).await;
        assert_eq!(self.controller.act(&fork, "suspend", json!({})).await.status, 200);
        self.typed = format!("{}\n{}", self.typed, self.id);
        type_line(&self.controller, &self.id, &self.id, &self.typed).await;
        fork
    }

    /// Takes a snapshot with memory, changes the desktop and rolls it back; with two rounds the controller is
    /// restarted in between. Returns the snapshot's id.
    pub async fn check_rollback(&mut self, rounds: usize) -> String {
        let (controller, id) = (&mut self.controller, &self.id);
        controller.bash(id, "echo early >/root/note").await;
        let began = Instant::now();
        let made = controller.act(id, "snapshots", json!({"name": "early", "memory": true})).await;
        println!("a desktop: snapshot in {:?}, {} bytes", began.elapsed(), made.body["size_bytes"]);
        assert_eq!((made.status, &made.body["state"]), (201, &json!("ready")), "{}", made.body);
        let body = json!({"snapshot_id": made.body["id"]});
        for round in 0..rounds {
            controller.bash(id, "echo late >/root/note; pkill xterm || true").await;
            if round == 1 {
                controller.kill();
                controller.start_again().await;
            }
            let began = Instant::now();
            let answer = controller.act(id, "rollback", body.clone()).await;
            println!("a desktop: rolled back in {:?}", began.elapsed());
            assert_eq!((answer.status, &answer.body["status"]), (200, &json!("running")), "{}", answer.body);
            assert_eq!(controller.bash(id, "cat /root/note").await, "early\n", "round {round}");
            assert_eq!(controller.bash(id, START_TIMES).await, self.since, "the same processes");
            let offset = clock_offset(controller, id).await;
            assert!(offset < 0.5, "clock offset of {offset} s");
            wait_for_terminal(controller, id).await;
            wait_for_count(controller, id).await;
        }
        made.body["id"].as_str().expect("an id").to_owned()
    }

    /// Launches desktops from a snapshot at once. They continue after the snapshot and the desktop are
    /// removed, and no two have the same identity. Consumes the desktop.
    pub async fn check_launches(self, snapshot: &str, number: usize) {
        let (controller, source) = (&self.controller, &self.id);
        let before = wait_for_count(controller, source).await;
        controller.bash(source, "echo late >/root/note").await;
        let began = Instant::now();
        let body = json!({"snapshot_id": snapshot});
        let launched = join_all((0..number).map(|_| controller.act(source, "fork", body.clone()))).await;
        println!("{number} desktops: launched in {:?}", began.elapsed());
        let mut all = vec![source.clone()];
        for made in &launched {
            assert_eq!((made.status, &made.body["status"]), (201, &json!("running")), "{}", made.body);
            all.push(id_of(&made.body));
        }
        assert!(wait_for_count(controller, source).await > before, "the source continues");
        let mut identities: Vec<Vec<String>> = Vec::new();
        for id in &all {
            let identity = self.identity_of(id).await;
            for other in &identities {
                let differ = identity.iter().zip(other).all(|(one, another)| one != another);
                assert!(differ, "{identity:?} and {other:?}");
            }
            identities.push(identity);
        }
        let path = format!("/computers/{source}/snapshots/{snapshot}");
        assert_eq!(controller.delete(&path).await.status, 200);
        assert_eq!(controller.delete(&format!("/computers/{source}")).await.status, 200);
        for id in &all[1..] {
            let note = controller.bash(id, "cat /root/note").await;
            assert_eq!(note, "early\n", "the disk must be that of the snapshot");
            self.expect_continued(id, 0).await;
        }
    }
}
