//! Execution of a model's calls on a computer: input with the settled screen in one round trip, and commands.
//!
//! The calls take the path of the REST API: access check, secrets, the computer's guest. Each call checks
//! access again, because a run may take an hour. The computer's agent learns that the run's thread acts, so
//! that it refuses input while somebody else controls the screen.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::RunServices;
use super::request::{AllowedTools, BASH};
use super::tools::ASK_FOR_HELP;
use crate::web::request_lease::RequestLease;
use hotdesk_base::ids::ThreadId;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::identity::access::Caller;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_guest::{ActionReply, ConditionalScreenshot, Guest, QUICK_TIMEOUT};
use hotdesk_http::headers::image_headers::IfNoneMatch;
use hotdesk_model::conversation::{COMPUTER, Image, ToolCall};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::desktop::action::{Action, PointerButton, ScreenQuery};
use hotdesk_wire::desktop::batch::{Batch, BatchResult};
use hotdesk_wire::desktop::screenshot::ScreenshotQuery;

mod actions;
mod command;
mod control;
mod input;

pub use control::{ControlView, HelpAsked, HelpState, handed_back, help_ended};

use actions::picture;
use command::shorten;

/// Longest time of a call: the longest wait of a model, and a margin.
const MAX_CALL: Duration = Duration::from_secs(330);
/// Longest result of a call for the model, in bytes: about 4,000 tokens.
const MAX_TEXT: usize = 16 * 1024;
/// Failures of the computer in a row after which a run ends: two may be a restart of its agent.
const MAX_FAILURES: u32 = 3;

/// Result of a call.
#[derive(Debug, Default)]
pub struct CallResult {
    /// Text for the model.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Picture for the model.
    pub image: Option<Image>,
    /// Observed effect of the last action.
    pub effect: Option<Value>,
}

/// What came of a call.
#[derive(Debug)]
pub enum CallExecution {
    /// It was executed, or cannot be.
    Done(CallResult),
    /// Somebody else controls the screen. Nothing of the call was done, or only its beginning.
    Held,
    /// The model asks a person for help, with this message.
    HelpWanted(String),
}

/// The picture that coordinates of calls refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its id at the agent.
    id: String,
    /// Its width, in pixels.
    pub width: u32,
    /// Its height, in pixels.
    pub height: u32,
}

/// Executes the calls of a run.
pub struct Executor {
    services: RunServices,
    caller: Caller,
    lease: Arc<RequestLease>,
    /// Id of the computer.
    computer: String,
    screen: Option<String>,
    pixels: u32,
    allowed: AllowedTools,
    /// Who acts: the run's thread, once it has one.
    actor: Option<Actor>,
    frame: Option<Frame>,
    /// Id of the picture that the next call refers to, where that is not the newest one.
    seen: Option<String>,
    /// Whether the last action was refused because of a change on the screen. The next one is not: a caret or
    /// a clock that changes all the time would refuse every action beside it.
    was_stale: bool,
    /// Failures of the computer in a row.
    failures: u32,
    /// Buttons that the model holds down.
    held: Vec<PointerButton>,
    /// Whether a request for help of this run may wait at the computer.
    has_asked: bool,
}

/// Which computer and screen a run works on, and by whose right.
pub struct ExecutorTarget {
    /// The caller; it may change the computer.
    pub caller: Caller,
    /// Leases on its credential and its memberships.
    pub lease: Arc<RequestLease>,
    /// Id of the computer.
    pub computer: String,
    /// Id of the screen; `None`: the boot screen.
    pub screen: Option<String>,
    /// Most pixels of a picture.
    pub pixels: u32,
    /// Tools that the model may use.
    pub allowed: AllowedTools,
}

impl CallResult {
    /// A failure with a text for the model.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }
}

impl Executor {
    /// Makes the executor of a run.
    pub fn new(services: RunServices, target: ExecutorTarget) -> Self {
        let ExecutorTarget { caller, lease, computer, screen, pixels, allowed } = target;
        Self {
            services,
            caller,
            lease,
            computer,
            screen,
            pixels,
            allowed,
            actor: None,
            frame: None,
            seen: None,
            was_stale: false,
            failures: 0,
            held: Vec::new(),
            has_asked: false,
        }
    }

    /// Names the run's thread, as which it acts from now on. It comes before the first call.
    pub fn act_as(&mut self, thread: ThreadId) {
        self.actor = Some(Actor::Thread(thread));
    }

    /// The newest picture of the whole screen.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// The id of the newest picture.
    pub fn frame_id(&self) -> Option<&str> {
        self.frame.as_ref().map(|frame| frame.id.as_str())
    }

    /// Says which picture the model saw when it made the next call: coordinates are pixels of it, and the
    /// call is refused when its target has changed since.
    pub fn set_seen(&mut self, frame: Option<String>) {
        self.seen = frame;
    }

    /// Takes a picture of the screen. Returns it with the id of the screen.
    ///
    /// # Errors
    /// Those of [`Directory::find_computer`](crate::computers::directory::Directory::find_computer), of
    /// `Fleet::guest` and of the agent.
    pub async fn look(&mut self) -> Result<(Image, String)> {
        let (computer, guest) = self.reach().await?;
        let query = ScreenshotQuery { screen: self.screen.clone(), ..picture(self.pixels) };
        let size = computer.hardware.resolution.size;
        let taken = guest.screenshot(&query, size, &IfNoneMatch::default()).await?;
        let ConditionalScreenshot::Image(image) = taken else {
            return Err(Error::internal("the agent returned no image for an unconditional request"));
        };
        let Some(headers) = &image.headers else {
            return Err(Error::internal("the computer's agent sent an image without its metadata"));
        };
        self.frame =
            Some(Frame { id: headers.frame.to_string(), width: headers.width, height: headers.height });
        let picture = Image { media_type: image.mime_type.to_owned(), data: image.bytes };
        Ok((picture, headers.screen.clone()))
    }

    /// Executes a call. The result has a picture if `wants_picture` or if the call asks for one. A call that
    /// cannot be executed has a result that says why.
    ///
    /// # Errors
    /// The caller lost access to the computer, the computer does not run, or it failed several times in a
    /// row.
    pub async fn execute(
        &mut self,
        call: &ToolCall,
        is_first: bool,
        wants_picture: bool,
    ) -> Result<CallExecution> {
        let seen = self.seen.take();
        let executed = match call.name.as_str() {
            COMPUTER if self.allowed.computer => {
                let frame = seen.or_else(|| self.frame_id().map(str::to_owned));
                self.act(&call.input, frame, is_first, wants_picture).await?
            }
            BASH if self.allowed.bash => CallExecution::Done(self.run_command(&call.input).await?),
            ASK_FOR_HELP if self.allowed.help => match control::help_message(&call.input) {
                Ok(message) => CallExecution::HelpWanted(message),
                Err(why) => CallExecution::Done(CallResult::failed(why)),
            },
            name => CallExecution::Done(CallResult::failed(format!("There is no tool {name}"))),
        };
        Ok(match executed {
            CallExecution::Done(result) => {
                CallExecution::Done(CallResult { text: shorten(result.text, MAX_TEXT), ..result })
            }
            CallExecution::Held => CallExecution::Held,
            CallExecution::HelpWanted(message) => CallExecution::HelpWanted(message),
        })
    }

    /// Undoes what a run that ended has left: the buttons that the model pressed, and its request for help. A
    /// computer that cannot be reached does both by itself after a time.
    pub async fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            let actions = held.into_iter().map(Action::MouseUp).collect();
            if let Err(error) = self.send(actions, None).await {
                tracing::info!(
                    computer = self.computer,
                    error = format_args!("{error:#}"),
                    "could not release the buttons of a run that ended"
                );
            }
        }
        self.withdraw_help().await;
    }

    /// Takes a picture for a result that has none. Without one, the text says why.
    ///
    /// # Errors
    /// Those of [`Self::execute`].
    pub async fn show(&mut self, result: &mut CallResult) -> Result<()> {
        match self.look().await {
            Ok((image, _)) => result.image = Some(image),
            Err(error) => {
                let unsent = self.unsent(error)?;
                result.is_error = true;
                result.text = format!("{}\nThere is no picture: {}", result.text, unsent.text);
            }
        }
        Ok(())
    }

    async fn find(&self) -> Result<Computer> {
        let finding = self.services.directory.find_computer(&self.caller, &self.computer);
        self.lease.recording(finding).await
    }

    async fn reach(&self) -> Result<(Computer, Guest)> {
        let computer = self.find().await?;
        let guest = self.services.fleet.guest(&computer).await?;
        Ok((computer, self.as_actor(guest)))
    }

    fn as_actor(&self, guest: Guest) -> Guest {
        match self.actor {
            Some(actor) => guest.acting_as(actor),
            None => guest,
        }
    }

    /// Sends actions after filling in their secrets. `groups` is [`Batch::groups`].
    async fn send(&self, mut actions: Vec<Action>, groups: Option<Vec<u32>>) -> Result<BatchResult> {
        let (computer, guest) = self.reach().await?;
        self.services.secrets.fill(&self.caller, &computer, &mut actions).await?;
        let timeout = QUICK_TIMEOUT + actions.iter().map(Action::duration).sum::<Duration>().min(MAX_CALL);
        let batch = Batch { actions, groups, ..Batch::default() };
        let query = ScreenQuery { screen: self.screen.clone() };
        let reply: ActionReply<BatchResult> =
            guest.act("/actions", query, &batch, None, None, timeout).await?;
        Ok(reply.answer)
    }

    /// Converts a failure to send a call: a refusal is a result for the model, and so are two failures of the
    /// computer in a row.
    ///
    /// # Errors
    /// The failure, when the run cannot go on.
    fn unsent(&mut self, error: Error) -> Result<CallResult> {
        match error.kind {
            Kind::Invalid | Kind::TooLarge | Kind::Unprocessable => {}
            // A screen or a secret that does not exist; a computer that was deleted has no code.
            Kind::NotFound if error.code.is_some() => {}
            Kind::Internal | Kind::TimedOut | Kind::Unavailable if self.may_fail(&error) => {}
            Kind::Unauthenticated
            | Kind::PaymentRequired
            | Kind::Forbidden
            | Kind::NotFound
            | Kind::Conflict
            | Kind::Mismatched
            | Kind::SlowRequest
            | Kind::UnsupportedMedia
            | Kind::RateLimited
            | Kind::Internal
            | Kind::Unavailable
            | Kind::BadGateway
            | Kind::TimedOut => return Err(error),
        }
        Ok(CallResult::failed(error.message))
    }

    /// Counts a failure of the computer. Returns whether the run goes on.
    fn may_fail(&mut self, error: &Error) -> bool {
        if self.failures + 1 >= MAX_FAILURES {
            return false;
        }
        self.failures += 1;
        tracing::info!(
            computer = self.computer,
            error = format_args!("{error:#}"),
            "a request of a run to its computer failed"
        );
        true
    }
}
