//! Does this computer do what it says? Each part is tried on a hidden screen, measured, and taken away again.

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
mod finding;
mod keys;
mod python;
mod screen;
mod screenshot;
mod scroll;
mod typing;
mod windows;

use super::display::{Displays, Hidden};
use super::state::Agent;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::resolution::Size;
use hotdesk_wire::selftest::{Check, CheckOutcome, SelfTest};

use finding::{Found, millis, report};
use screen::Lit;

/// Size of the hidden screen.
const SIZE: Size = Size { width: 800, height: 600 };
/// How long all checks may take. With the ten seconds that a screen may need to end it stays within
/// [`hotdesk_domain::limits::MAX_SELFTEST_SECONDS`].
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long one check may take: many times what a loaded machine needs, for a sound computer on a busy host to pass.
const STEP: Duration = Duration::from_secs(15);
/// How long the screen may take to come up.
const SCREEN_STEP: Duration = Duration::from_secs(20);

/// Proves this computer. Clones are the same one: one test runs at a time.
#[derive(Clone)]
pub struct SelfTests {
    agent: Agent,
    displays: Option<Displays>,
    turn: Arc<Mutex<()>>,
}

/// What the checks that need no screen work with.
struct Stage {
    agent: Agent,
    /// A folder of the test's own, in the home folder; it may not be there yet.
    folder: PathBuf,
}

impl SelfTests {
    /// Without displays only commands, files and what belongs to the session are tried.
    pub fn new(agent: Agent, displays: Option<Displays>) -> Self {
        Self { agent, displays, turn: Arc::default() }
    }

    /// Tries everything. When the returned future is dropped, as it is when a client hangs up, the test ends; what it
    /// made is taken away in any case.
    ///
    /// # Errors
    /// `Conflict` when another test runs, or no screen can be made; `Unavailable` when the agent is stopping.
    pub async fn run(&self) -> Result<SelfTest> {
        let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() else {
            return Err(Error::conflict("Another self-test is running").retry_after(5));
        };
        let hidden = self.displays.as_ref().map(|displays| displays.hide(SIZE)).transpose()?;
        let managed = self.displays.as_ref().is_some_and(Displays::has_session);
        let tasks = &self.agent.tasks;
        let abandon = tasks.stopping().child_token();
        let _hang_up = abandon.clone().drop_guard();
        let folder = self.agent.home.join(format!(".hotdesk-selftest-{}", Uuid::new_v4().simple()));
        let stage = Stage { agent: self.agent.clone(), folder };
        // In a task of its own: what was made must be taken away even when nobody waits any more.
        let running = tasks.spawn("self-test", async move {
            let began = Instant::now();
            let checks = tokio::select! {
                checks = all(&stage, hidden.as_ref(), managed) => Some(checks),
                () = abandon.cancelled() => None,
            };
            if let Some(hidden) = hidden {
                hidden.end().await;
            }
            files::take_away(stage.folder).await;
            drop(turn);
            checks.map(|checks| answer(checks, began))
        });
        match running.await {
            Ok(Some(Some(answer))) => Ok(answer),
            Ok(Some(None)) => Err(Error::unavailable("the agent is stopping")),
            Ok(None) | Err(_) => Err(Error::internal("the task of a self-test broke down")),
        }
    }
}

fn answer(checks: Vec<Check>, began: Instant) -> SelfTest {
    let passed = checks.iter().all(|check| check.outcome != CheckOutcome::Failed);
    SelfTest { passed, took_ms: millis(began.elapsed()), checks }
}

/// Every check in turn.
async fn all(stage: &Stage, hidden: Option<&Hidden>, managed: bool) -> Vec<Check> {
    let until = Instant::now() + TIMEOUT;
    let mut checks = Vec::new();
    let lit = match hidden {
        None => Err("this agent has no screens"),
        Some(hidden) => match screen::light(hidden, SCREEN_STEP).await {
            Ok((lit, measured)) => {
                checks.push(report("screen", Ok(measured)));
                Ok(lit)
            }
            Err(flaw) => {
                checks.push(report("screen", Err(flaw)));
                Err("the screen is of no use")
            }
        },
    };
    match &lit {
        Ok(lit) => checks.extend(on_screen(lit, until, managed).await),
        Err(why) => {
            let rest = ["windows", "screenshot", "click", "scroll", "type", "keys", "clipboard"];
            let first = hidden.is_none().then_some("screen");
            checks.extend(first.into_iter().chain(rest).map(|name| report(name, finding::skipped(*why))));
        }
    }
    checks.push(step("bash", until, bash::check(stage)).await);
    checks.push(step("python", until, python::check(stage)).await);
    checks.push(step("files", until, files::check(stage)).await);
    checks.push(step("audio", until, audio::check(stage)).await);
    checks.push(step("elements", until, elements::check(stage)).await);
    checks
}

/// Those that need a screen.
async fn on_screen(lit: &Lit, until: Instant, managed: bool) -> [Check; 7] {
    [
        step("windows", until, windows::check(lit, managed)).await,
        step("screenshot", until, screenshot::check(lit)).await,
        step("click", until, click::check(lit)).await,
        step("scroll", until, scroll::check(lit)).await,
        step("type", until, typing::check(lit)).await,
        step("keys", until, keys::check(lit)).await,
        step("clipboard", until, clipboard::check(lit)).await,
    ]
}

/// One check in its time, or in what is left of everybody's.
async fn step(name: &str, until: Instant, check: impl Future<Output = Found>) -> Check {
    let patience = STEP.min(until.saturating_duration_since(Instant::now()));
    let found = match tokio::time::timeout(patience, check).await {
        Ok(found) => found,
        Err(_) => finding::failed(format!("it was not done within {:.1} s", patience.as_secs_f64())),
    };
    report(name, found)
}
