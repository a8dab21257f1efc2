//! Self-test of a computer: each part is tried and measured, on a hidden screen if it needs one, and
//! everything is removed afterwards.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use uuid::Uuid;

mod audio;
mod bash;
mod click;
mod clipboard;
mod elements;
mod files;
mod keys;
mod outcome;
mod python;
mod screen;
mod screenshot;
mod scroll;
mod typing;
mod windows;

use crate::display::{Displays, HiddenScreen};
use crate::state::Agent;
use hotdesk_domain::desktop::resolution::Size;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::agent::selftest::{Check, CheckOutcome, SelfTest};

use outcome::{CheckResult, millis, report};
use screen::TestScreen;

/// Size of the hidden screen in pixels.
const SIZE: Size = Size { width: 800, height: 600 };
/// Timeout of all checks. With the ten seconds that a screen may need to end it stays within
/// [`hotdesk_domain::limits::MAX_SELFTEST_SECONDS`].
const TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of one check: many times what a loaded machine needs, so that a working computer on a busy host
/// passes.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout for the start of the screen.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(20);

/// Runner of self-tests. Clones share one lock: one test runs at a time.
#[derive(Clone)]
pub struct SelfTests {
    agent: Agent,
    displays: Option<Displays>,
    running: Arc<Mutex<()>>,
}

/// Context of checks without a screen.
struct TestContext {
    agent: Agent,
    /// Folder of the test in the home folder; it may not exist yet.
    folder: PathBuf,
}

impl SelfTests {
    /// Without displays only commands, files and the session are tested.
    pub fn new(agent: Agent, displays: Option<Displays>) -> Self {
        Self { agent, displays, running: Arc::default() }
    }

    /// Runs all checks. When the returned future is dropped (the client disconnects), the test ends.
    /// Everything it created is removed in any case. `took_ms` is in milliseconds.
    ///
    /// # Errors
    /// `Conflict` when another test runs or no screen can be created; `Unavailable` when the agent is
    /// stopping.
    pub async fn run(&self) -> Result<SelfTest> {
        let Ok(guard) = Arc::clone(&self.running).try_lock_owned() else {
            return Err(Error::conflict("Another self-test is running").retry_after(5));
        };
        let hidden = self.displays.as_ref().map(|displays| displays.create_hidden(SIZE)).transpose()?;
        let managed = self.displays.as_ref().is_some_and(Displays::has_session);
        let tasks = &self.agent.tasks;
        let cancelled = tasks.stopping().child_token();
        let _on_disconnect = cancelled.clone().drop_guard();
        let folder = self.agent.home.join(format!(".hotdesk-selftest-{}", Uuid::new_v4().simple()));
        let context = TestContext { agent: self.agent.clone(), folder };
        // In its own task, because everything must be removed also when the client has disconnected.
        let running = tasks.spawn("self-test", async move {
            let began = Instant::now();
            let checks = tokio::select! {
                checks = run_checks(&context, hidden.as_ref(), managed) => Some(checks),
                () = cancelled.cancelled() => None,
            };
            if let Some(hidden) = hidden {
                hidden.end().await;
            }
            files::remove_folder(context.folder).await;
            drop(guard);
            checks.map(|checks| summarize(checks, began))
        });
        match running.await {
            Ok(Some(Some(result))) => Ok(result),
            Ok(Some(None)) => {
                Err(Error::unavailable("the agent is stopping; try again after it has started"))
            }
            Ok(None) | Err(_) => Err(Error::internal("the task of a self-test failed")),
        }
    }
}

fn summarize(checks: Vec<Check>, began: Instant) -> SelfTest {
    let passed = checks.iter().all(|check| check.outcome != CheckOutcome::Failed);
    SelfTest { passed, took_ms: millis(began.elapsed()), checks }
}

/// Runs all checks in order.
async fn run_checks(context: &TestContext, hidden: Option<&HiddenScreen>, managed: bool) -> Vec<Check> {
    let deadline = Instant::now() + TIMEOUT;
    let mut checks = Vec::new();
    let screen = match hidden {
        None => Err("this agent has no screens"),
        Some(hidden) => match screen::open(hidden, SCREEN_TIMEOUT).await {
            Ok((screen, measurement)) => {
                checks.push(report("screen", Ok(measurement)));
                Ok(screen)
            }
            Err(reason) => {
                checks.push(report("screen", Err(reason)));
                Err("the screen check failed")
            }
        },
    };
    match &screen {
        Ok(screen) => checks.extend(run_screen_checks(screen, deadline, managed).await),
        Err(why) => {
            let others = ["windows", "screenshot", "click", "scroll", "type", "keys", "clipboard"];
            let first = hidden.is_none().then_some("screen");
            checks.extend(first.into_iter().chain(others).map(|name| report(name, outcome::skipped(*why))));
        }
    }
    checks.push(run_check("bash", deadline, bash::check(context)).await);
    checks.push(run_check("python", deadline, python::check(context)).await);
    checks.push(run_check("files", deadline, files::check(context)).await);
    checks.push(run_check("audio", deadline, audio::check(context)).await);
    checks.push(run_check("elements", deadline, elements::check(context)).await);
    checks
}

/// Runs the checks that need a screen.
async fn run_screen_checks(screen: &TestScreen, deadline: Instant, managed: bool) -> [Check; 7] {
    [
        run_check("windows", deadline, windows::check(screen, managed)).await,
        run_check("screenshot", deadline, screenshot::check(screen)).await,
        run_check("click", deadline, click::check(screen)).await,
        run_check("scroll", deadline, scroll::check(screen)).await,
        run_check("type", deadline, typing::check(screen)).await,
        run_check("keys", deadline, keys::check(screen)).await,
        run_check("clipboard", deadline, clipboard::check(screen)).await,
    ]
}

/// Runs one check until its own timeout or the deadline of all checks, whichever is first.
async fn run_check(name: &str, deadline: Instant, check: impl Future<Output = CheckResult>) -> Check {
    let timeout = CHECK_TIMEOUT.min(deadline.saturating_duration_since(Instant::now()));
    let result = match tokio::time::timeout(timeout, check).await {
        Ok(result) => result,
        Err(_) => outcome::failed(format!("the check did not finish within {:.1} s", timeout.as_secs_f64())),
    };
    report(name, result)
}
