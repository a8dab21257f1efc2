//! Chat threads: conversations of language models with computers, which runs write and people read.
//!
//! A thread belongs to its computer: members of the workspace read and change it, viewers read it. Each
//! message and step of a run is stored before the run goes on. [`Threads::begin`], [`Threads::append`] and
//! [`Threads::record_step`] mark the thread as running and [`Threads::finish`] stores the outcome, so a
//! thread that runs when the controller starts, or without a run in memory, was interrupted.
//!
//! ```text
//!          begin, append, record_step         finish
//!   no run ----------------------> running ------------> done, confirm, max_steps, cancelled, failed, ...
//!                                    | start of a controller, a run that is not there
//!                                    v
//!                                interrupted      begin, append or record_step: running again
//! ```

mod stored;

pub use hotdesk_domain::desktop::thread::{RunOutcome, WaitingCall};

use serde_json::Value;

use crate::computers::directory::Directory;
use crate::data_dir::blobs::{BlobStore, PictureKind};
use crate::data_dir::pictures::RecordedPictures;
use hotdesk_base::ids::{ComputerId, ThreadId};
use hotdesk_domain::desktop::thread::{MAX_PICTURE_BYTES, check_title, cut_step_text, title_of};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::{Caller, Role as MemberRole};
use hotdesk_model::conversation::{Image, Message, Role, ToolCall, Usage};
use hotdesk_store::Store;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::threads::{
    NewThreadStep, StoredMessage, Thread, ThreadChange, ThreadCosts, ThreadFilter, ThreadMessages, ThreadStep,
};
use stored::{call_text, message_text, parse_message, texts, value_text};

/// Most bytes of messages in a list, of each thread. With 200 threads the list has at most 1.6 MB.
const LISTED_BYTES: i64 = 8 * 1024;
/// The same in the list of all computers, which needs them only for threads without a title: a page has at
/// most 100 KB of them.
const OVERVIEW_BYTES: i64 = 1024;
/// Messages from which a title is made.
const TITLE_MESSAGES: usize = 3;

/// Chat threads; cheap to clone.
#[derive(Clone)]
pub struct Threads {
    store: Store,
    directory: Directory,
    pictures: RecordedPictures,
}

/// A step of a run to record.
#[derive(Clone, Debug)]
pub struct NewStep {
    /// The call of the tool, as the model wrote it.
    pub call: ToolCall,
    /// Text of the model before the call.
    pub text: Option<String>,
    /// Result of the call for the model.
    pub result: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// The action in the API's terms.
    pub action: Option<Value>,
    /// Effect of the action.
    pub effect: Option<Value>,
    /// The screen after the call.
    pub screenshot: Option<Image>,
    /// Tokens of the model's turn.
    pub usage: Usage,
    /// Cost of the turn in millionths of a cent.
    pub cost_microcents: i64,
    /// Duration of the call in milliseconds.
    pub took_ms: u64,
}

/// The text of a message: for people, without calls, results and pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageText {
    /// Author of the message.
    pub role: Role,
    /// Its texts, joined by line breaks.
    pub text: String,
}

/// Changes of a thread that a client asks for; `None` leaves the value.
#[derive(Clone, Debug, Default)]
pub struct RequestedChange {
    /// The new title.
    pub title: Option<String>,
    /// Whether it is archived.
    pub archived: Option<bool>,
    /// Messages that replace all others.
    pub messages: Option<Vec<MessageText>>,
}

impl Threads {
    /// Creates the service of the stored threads.
    pub fn new(store: Store, directory: Directory, blobs: BlobStore) -> Self {
        let pictures = RecordedPictures::new(PictureKind::Step, store.clone(), blobs);
        Self { store, directory, pictures }
    }

    /// Marks runs of an earlier controller as interrupted, and counts the stored pictures. Call it once,
    /// before a run begins.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store or the disk fails.
    pub async fn recover(&self) -> Result<()> {
        let interrupted = self.store.interrupt_runs().await?;
        if interrupted > 0 {
            tracing::info!(interrupted, "runs of an earlier controller are marked as interrupted");
        }
        self.pictures.recover().await
    }

    /// Removes pictures of steps that a crash left without a record, and records without a picture.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store or the disk fails.
    pub async fn sweep(&self) -> Result<()> {
        self.pictures.sweep().await
    }

    /// Marks threads that are running without a run as interrupted: their run panicked, or its end could not
    /// be stored. `has_run` says whether a run of this controller works on a thread.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn interrupt_lost(&self, has_run: impl Fn(ThreadId) -> bool) -> Result<()> {
        for (thread, changed) in self.store.running_threads().await? {
            // A run is known before it changes its thread, so one that begins now is not marked.
            if !has_run(thread) {
                self.store.interrupt_run(thread, changed).await?;
                tracing::info!(%thread, "a thread without a run is marked as interrupted");
            }
        }
        Ok(())
    }

    /// Returns the call of a thread that waits to be confirmed.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails.
    pub async fn waiting(&self, thread: ThreadId) -> Result<Option<WaitingCall>> {
        Ok(self.store.thread(thread).await?.ok_or_else(unknown)?.waiting)
    }

    /// Marks a thread as running. It is the first call of a run; no call waits to be confirmed any longer.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails.
    pub async fn begin(&self, thread: ThreadId) -> Result<()> {
        self.store.begin_run(thread).await
    }

    /// Returns the caller's thread `id` of this computer, or a new one, for a run that is about to begin.
    ///
    /// # Errors
    /// `NotFound` when the computer has no such thread; `Forbidden` when the caller may not change the
    /// computer; those of [`Store::add_thread`].
    pub async fn open(&self, caller: &Caller, computer: &Computer, id: Option<&str>) -> Result<ThreadId> {
        let caller = caller.for_change();
        self.directory
            .admit_to(&caller, computer.workspace, &computer.workspace_name, computer.owner)
            .await?;
        match id {
            Some(id) => {
                let thread = self.stored(id).await?;
                if thread.computer == computer.id { Ok(thread.id) } else { Err(unknown()) }
            }
            None => self.add(&caller, computer.id).await,
        }
    }

    /// Returns the messages of a thread so far, oldest first. Their pictures have no bytes.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails.
    pub async fn history(&self, thread: ThreadId) -> Result<Vec<Message>> {
        if self.store.thread(thread).await?.is_none() {
            return Err(unknown());
        }
        let stored = self.store.thread_messages(thread).await?;
        stored.iter().map(parse_message).collect()
    }

    /// Appends a message, without the bytes of its pictures.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist, for example because it was removed during the run;
    /// `Invalid` or `Conflict` (`thread_full`) above its bounds; `Unavailable` or `Internal` when the store
    /// fails.
    pub async fn append(&self, thread: ThreadId, message: &Message) -> Result<()> {
        let content = serde_json::to_string(message).map_err(Error::internal)?;
        let unused = self.store.append_message(thread, &content).await?;
        self.pictures.remove(&unused).await;
        Ok(())
    }

    /// Records a step, and returns its number in the thread. Long texts are cut, large values are left out,
    /// and a picture that cannot be stored is missing; the log says so.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails.
    pub async fn record_step(&self, thread: ThreadId, step: NewStep) -> Result<i64> {
        let picture = match &step.screenshot {
            Some(image) => {
                let owner = self.store.thread_owner(thread).await?.ok_or_else(unknown)?;
                self.pictures.put(owner, &image.data, MAX_PICTURE_BYTES).await?
            }
            None => None,
        };
        let stored = NewThreadStep {
            tool_call: call_text(&step.call)?,
            text: step.text.as_deref().map(cut_step_text),
            result: cut_step_text(&step.result),
            is_error: step.is_error,
            action: value_text(step.action.as_ref())?,
            effect: value_text(step.effect.as_ref())?,
            usage: serde_json::to_string(&step.usage).map_err(Error::internal)?,
            cost_microcents: step.cost_microcents,
            took_ms: i64::try_from(step.took_ms).unwrap_or(i64::MAX),
            picture,
        };
        match self.store.add_thread_step(thread, &stored).await {
            Ok((number, unused)) => {
                self.pictures.remove(&unused).await;
                Ok(number)
            }
            Err(error) => {
                self.pictures.remove(&picture.map(|(id, _)| id).into_iter().collect::<Vec<_>>()).await;
                Err(error)
            }
        }
    }

    /// Stores how a run ended, and adds its tokens and its cost, in millionths of a cent. It is the last call
    /// of a run.
    ///
    /// # Errors
    /// `NotFound` when the thread does not exist; `Unavailable` or `Internal` when the store fails.
    pub async fn finish(
        &self,
        thread: ThreadId,
        outcome: RunOutcome,
        usage: &Usage,
        microcents: i64,
    ) -> Result<()> {
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let costs = ThreadCosts {
            input_tokens: tokens(usage.input_tokens),
            output_tokens: tokens(usage.output_tokens),
            cache_read_tokens: tokens(usage.cache_read_tokens),
            cache_write_tokens: tokens(usage.cache_write_tokens),
            cost_microcents: microcents,
        };
        let counted = self.store.add_costs(thread, &costs).await;
        self.store.end_run(thread, &outcome).await?;
        counted
    }

    /// Finds a thread that the caller may use, with its computer and the caller's role there.
    ///
    /// # Errors
    /// `NotFound` ("Thread not found"); `Forbidden` by the rule for its computer.
    pub async fn find(&self, caller: &Caller, id: &str) -> Result<(Thread, Computer, MemberRole)> {
        let thread = self.stored(id).await?;
        let computer = thread.computer.to_string();
        let (computer, role) = self.directory.find_computer_as(caller, &computer).await?;
        Ok((thread, computer, role))
    }

    /// Finds a thread whose steps the caller may read: they have output of commands and contents of files.
    ///
    /// # Errors
    /// The errors of [`Self::find`] and [`Directory::check_files`].
    pub async fn find_with_steps(&self, caller: &Caller, id: &str) -> Result<Thread> {
        let (thread, computer, role) = self.find(caller, id).await?;
        self.directory.check_files(role, &computer).await?;
        Ok(thread)
    }

    /// Returns the threads of a computer, the last changed first, each with the texts of its newest messages.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` for a computer that the caller may not use; `Unavailable` or `Internal` when
    /// the store fails.
    pub async fn list(&self, caller: &Caller, computer: &str) -> Result<Vec<(Thread, Vec<MessageText>)>> {
        let computer = self.directory.find_computer(caller, computer).await?;
        let threads = self.store.threads_of(computer.id).await?;
        let messages = self.store.newest_messages(computer.id, LISTED_BYTES).await?;
        with_texts(threads, messages)
    }

    /// Returns a page of threads of all computers, the last changed first, each with the texts of its newest
    /// messages. The caller has checked access to the workspace and the computer of the filter.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn overview(&self, filter: &ThreadFilter) -> Result<Vec<(Thread, Vec<MessageText>)>> {
        let threads = self.store.threads(filter).await?;
        let ids: Vec<ThreadId> = threads.iter().map(|thread| thread.id).collect();
        let messages = self.store.newest_messages_of(&ids, OVERVIEW_BYTES).await?;
        with_texts(threads, messages)
    }

    /// Creates a thread of a computer.
    ///
    /// # Errors
    /// `NotFound` or `Forbidden` for a computer that the caller may not use; those of [`Store::add_thread`].
    pub async fn create(&self, caller: &Caller, computer: &str) -> Result<ThreadId> {
        let computer = self.directory.find_computer(caller, computer).await?;
        self.add(caller, computer.id).await
    }

    /// Returns a thread with the texts of its messages.
    ///
    /// # Errors
    /// The errors of [`Self::find`]; `Unavailable` or `Internal` when the store fails.
    pub async fn read(&self, caller: &Caller, id: &str) -> Result<(Thread, Vec<MessageText>)> {
        let (thread, _, _) = self.find(caller, id).await?;
        let messages = texts(&self.store.thread_messages(thread.id).await?)?;
        Ok((thread, messages))
    }

    /// Changes a thread and returns it.
    ///
    /// # Errors
    /// The errors of [`Self::find`], [`check_title`] and [`Store::change_thread`].
    pub async fn change(&self, caller: &Caller, id: &str, wanted: RequestedChange) -> Result<Thread> {
        let (thread, _, _) = self.find(caller, id).await?;
        let title = wanted.title.as_deref().map(check_title).transpose()?;
        let messages =
            wanted.messages.map(|all| all.into_iter().map(message_text).collect::<Result<Vec<_>>>());
        let change = ThreadChange {
            title: title.map(|title| title.as_str().to_owned()),
            archived: wanted.archived,
            messages: messages.transpose()?,
        };
        if change.title.is_none() && change.archived.is_none() && change.messages.is_none() {
            return Ok(thread);
        }
        let (changed, unused) = self.store.change_thread(thread.id, &change).await?;
        self.pictures.remove(&unused).await;
        Ok(changed)
    }

    /// Makes a title of the first of these messages, or of the first stored ones, and stores it. The user's
    /// messages count before the model's. Returns the title.
    ///
    /// # Errors
    /// The errors of [`Self::find`] and [`Store::change_thread`].
    pub async fn make_title(
        &self,
        caller: &Caller,
        id: &str,
        messages: Option<Vec<MessageText>>,
    ) -> Result<String> {
        let (thread, _, _) = self.find(caller, id).await?;
        let messages = match messages {
            Some(messages) => messages,
            None => texts(&self.store.thread_messages(thread.id).await?)?,
        };
        let first = || messages.iter().take(TITLE_MESSAGES);
        let by = |role| first().filter(move |it| it.role == role).map(|it| it.text.as_str());
        let title = title_of(by(Role::User).chain(by(Role::Assistant)));
        let change = ThreadChange { title: Some(title.clone()), ..ThreadChange::default() };
        self.store.change_thread(thread.id, &change).await?;
        Ok(title)
    }

    /// Removes a thread with its messages, steps and pictures. A run that writes to it fails with its next
    /// step.
    ///
    /// # Errors
    /// The errors of [`Self::find`]; `Unavailable` or `Internal` when the store fails.
    pub async fn remove(&self, caller: &Caller, id: &str) -> Result<()> {
        let (thread, _, _) = self.find(caller, id).await?;
        let pictures = self.store.remove_thread(thread.id).await?;
        self.pictures.remove(&pictures).await;
        Ok(())
    }

    /// Returns up to `limit` steps of a thread with numbers above `after`. The caller has checked access.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn steps(&self, thread: ThreadId, after: i64, limit: u32) -> Result<Vec<ThreadStep>> {
        self.store.thread_steps(thread, after, limit).await
    }

    /// Returns the first message of a thread with a number above `after`. The caller has checked access.
    ///
    /// # Errors
    /// `Unavailable` or `Internal` when the store fails.
    pub async fn next_message(&self, thread: ThreadId, after: i64) -> Result<Option<StoredMessage>> {
        self.store.next_message(thread, after).await
    }

    async fn add(&self, caller: &Caller, computer: ComputerId) -> Result<ThreadId> {
        let (thread, unused) = self.store.add_thread(computer, caller.account).await?;
        self.pictures.remove(&unused).await;
        Ok(thread)
    }

    async fn stored(&self, id: &str) -> Result<Thread> {
        let id: ThreadId = id.parse().map_err(|()| unknown())?;
        self.store.thread(id).await?.ok_or_else(unknown)
    }
}

/// Threads with the texts of their messages.
fn with_texts(threads: Vec<Thread>, mut messages: ThreadMessages) -> Result<Vec<(Thread, Vec<MessageText>)>> {
    let with_texts = threads.into_iter().map(|thread| {
        let newest = messages.remove(&thread.id.to_string()).unwrap_or_default();
        Ok((thread, texts(&newest)?))
    });
    with_texts.collect()
}

fn unknown() -> Error {
    Error::not_found("Thread not found")
}
