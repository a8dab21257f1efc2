//! Log of what a viewer does: its input beside its way to the VNC server, and entries of the timeline.
//!
//! ```text
//! admitted bytes -> VNC server
//!        \-> inputs -> queue -> task: groups -> entries of the timeline and of a recording
//! ```
//! Input never waits for it. A full queue loses inputs, which are counted and told as one entry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::grouping::{InputGroups, Step};
use crate::display::{Displays, Screen};
use crate::media::recording::Recordings;
use crate::media::timeline::{EntryInProgress, EntrySink, NewEntry, Timelines};
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::desktop::rfb::{ClientInput, InputReader};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::desktop::action::timeline::ActionRecord;
use hotdesk_wire::desktop::effect::WindowName;

/// Most inputs that wait for the task, which takes microseconds for most and [`WINDOW_TIMEOUT`] at most. Mice
/// send up to a thousand a second, keyboards some dozen.
const QUEUE: usize = 256;
/// How long the title of the window after an action may take. A millisecond is usual; a screen that executes
/// a long action answers after it.
const WINDOW_TIMEOUT: Duration = Duration::from_millis(200);
/// How long the end of a viewer waits to tell of lost inputs. The task empties the queue in milliseconds.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Screens that viewers see, and where their actions go.
#[derive(Clone, Debug)]
pub struct ViewedScreens {
    /// The screens.
    pub displays: Displays,
    /// Recordings of the screens.
    pub recordings: Recordings,
    /// Timelines of the screens.
    pub timelines: Timelines,
    /// Group of the tasks that write the entries.
    pub tasks: Tasks,
}

/// Log of one viewer.
#[derive(Debug)]
pub(super) struct ActionLog {
    reader: InputReader,
    queue: InputQueue,
}

/// An item of the queue.
#[derive(Debug, PartialEq)]
enum QueuedInput {
    Input(Instant, ClientInput),
    /// Inputs are missing here; some of them, so many, were presses.
    Lost(u64),
}

/// Sending side of the queue. It never waits.
#[derive(Debug)]
struct InputQueue {
    sender: mpsc::Sender<QueuedInput>,
    /// Buttons that are down.
    buttons: u8,
    /// Number of lost presses since the last input in the queue; `None` when nothing was lost.
    lost: Option<u64>,
}

impl ActionLog {
    /// Starts the log of a viewer of a screen; `by` is who acts. Its task ends after the log.
    pub(super) fn start(screens: &ViewedScreens, screen: Arc<Screen>, by: Option<Actor>) -> Self {
        let (queue, noted) = InputQueue::new();
        let entries = ViewerEntries {
            screen,
            by,
            timelines: screens.timelines.clone(),
            recordings: screens.recordings.clone(),
            open: None,
        };
        let _task = screens.tasks.spawn("actions of a viewer", entries.write(noted));
        Self { reader: InputReader::default(), queue }
    }

    /// Notes the input in bytes that are about to be sent to the server. All of it has the same time.
    pub(super) fn note(&mut self, bytes: &[u8]) {
        let (now, queue) = (Instant::now(), &mut self.queue);
        self.reader.read(bytes, |input| queue.offer(now, input));
    }

    /// Ends the log.
    pub(super) async fn close(self) {
        let Some(lost) = self.queue.lost else { return };
        // After the timeout, or without the task, nothing more can be told.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.queue.sender.send(QueuedInput::Lost(lost))).await;
    }
}

impl InputQueue {
    fn new() -> (Self, mpsc::Receiver<QueuedInput>) {
        let (sender, noted) = mpsc::channel(QUEUE);
        (Self { sender, buttons: 0, lost: None }, noted)
    }

    /// Queues an input, or counts it.
    fn offer(&mut self, at: Instant, input: ClientInput) {
        let presses = match input {
            ClientInput::Pointer { buttons, .. } => {
                let before = std::mem::replace(&mut self.buttons, buttons);
                if buttons == before {
                    // A move changes no group. Only the last place of a viewer that leaves with a button down
                    // counts, so a move that finds no room does not matter.
                    if buttons != 0 && self.lost.is_none() {
                        let _ = self.sender.try_send(QueuedInput::Input(at, input));
                    }
                    return;
                }
                u64::from((buttons & !before).count_ones())
            }
            ClientInput::Key { is_down, .. } => u64::from(is_down),
            ClientInput::Clipboard { .. } | ClientInput::Unreadable => 1,
        };
        // Not before the queue is empty: a burst is a few entries, not one for each place in the queue.
        if let Some(lost) = self.lost
            && self.sender.capacity() == QUEUE
            && self.sender.try_send(QueuedInput::Lost(lost)).is_ok()
        {
            self.lost = None;
        }
        if self.lost.is_some() || self.sender.try_send(QueuedInput::Input(at, input)).is_err() {
            self.lost = Some(self.lost.unwrap_or(0).saturating_add(presses));
        }
    }
}

/// Entries of one viewer.
struct ViewerEntries {
    screen: Arc<Screen>,
    by: Option<Actor>,
    timelines: Timelines,
    recordings: Recordings,
    /// The entry of the action that has begun.
    open: Option<EntryInProgress>,
}

impl ViewerEntries {
    /// Writes entries until the log ends.
    async fn write(mut self, mut noted: mpsc::Receiver<QueuedInput>) {
        let (mut grouping, mut steps) = (InputGroups::default(), Vec::new());
        loop {
            let heard = tokio::select! {
                // What came before the time has passed is older.
                biased;
                heard = noted.recv() => heard,
                () = sleep_until(grouping.due()) => {
                    grouping.pass(Instant::now(), &mut steps);
                    self.follow(&mut steps).await;
                    continue;
                }
            };
            match heard {
                Some(QueuedInput::Input(at, input)) => grouping.add(at, input, &mut steps),
                Some(QueuedInput::Lost(presses)) => grouping.lose(presses, &mut steps),
                None => break,
            }
            self.follow(&mut steps).await;
        }
        grouping.finish(Instant::now(), &mut steps);
        self.follow(&mut steps).await;
    }

    async fn follow(&mut self, steps: &mut Vec<Step>) {
        for step in steps.drain(..) {
            match step {
                Step::Begin { is_pictured } => {
                    let recording =
                        self.recordings.timeline(&self.screen).map(|timeline| timeline as Arc<dyn EntrySink>);
                    let new = NewEntry::of_viewer(self.by, is_pictured, recording);
                    self.open = Some(self.timelines.begin(&self.screen, new));
                }
                Step::End { record, took } => {
                    let Some(open) = self.open.take() else { continue };
                    // A title may show what was typed, as after an action with a confidential text.
                    let window_after =
                        if record.x.is_some() { focused_window(&self.screen).await } else { None };
                    open.end_as(ActionRecord { window_after, ..*record }, took);
                }
            }
        }
    }
}

/// The window with the keyboard focus; `None` when it is not known in time.
async fn focused_window(screen: &Screen) -> Option<WindowName> {
    let seen = tokio::time::timeout(WINDOW_TIMEOUT, screen.observe_current()).await;
    let focused = seen.ok()?.ok()?.after;
    Some(WindowName { id: format!("{:#x}", focused.window?), title: focused.title })
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: ClientInput = ClientInput::Pointer { buttons: 0, x: 1, y: 1 };
    const DOWN: ClientInput = ClientInput::Pointer { buttons: 1, x: 1, y: 1 };

    fn key(is_down: bool) -> ClientInput {
        ClientInput::Key { is_down, keysym: 97 }
    }

    fn drained(noted: &mut mpsc::Receiver<QueuedInput>) -> Vec<QueuedInput> {
        std::iter::from_fn(|| noted.try_recv().ok()).collect()
    }

    #[test]
    fn a_full_queue_counts_what_it_loses_and_tells_it_in_its_place() {
        let (mut queue, mut noted) = InputQueue::new();
        let now = Instant::now();
        for _ in 0..QUEUE {
            queue.offer(now, key(true));
        }
        // Two presses and a key go down; what comes up is lost as well, and a move counts as nothing.
        for input in [DOWN, DOWN, UP, DOWN, UP, key(true), key(false)] {
            queue.offer(now, input);
        }
        assert_eq!(queue.lost, Some(3));
        assert_eq!(
            drained(&mut noted),
            (0..QUEUE).map(|_| QueuedInput::Input(now, key(true))).collect::<Vec<_>>()
        );
        queue.offer(now, DOWN);
        assert_eq!(drained(&mut noted), [QueuedInput::Lost(3), QueuedInput::Input(now, DOWN)]);
        assert_eq!(queue.lost, None);
    }

    #[test]
    fn recording_goes_on_when_the_queue_is_empty() {
        let (mut queue, mut noted) = InputQueue::new();
        let now = Instant::now();
        for _ in 0..QUEUE {
            queue.offer(now, key(true));
        }
        queue.offer(now, key(false));
        assert_eq!(queue.lost, Some(0), "whether its key is down is not known any more");
        assert!(noted.try_recv().is_ok());
        queue.offer(now, key(true));
        assert_eq!((queue.lost, drained(&mut noted).len()), (Some(1), QUEUE - 1));
        queue.offer(now, key(false));
        assert_eq!(drained(&mut noted), [QueuedInput::Lost(1), QueuedInput::Input(now, key(false))]);
    }

    #[test]
    fn moves_without_a_button_are_not_queued() {
        let (mut queue, mut noted) = InputQueue::new();
        let now = Instant::now();
        for input in [UP, UP, DOWN, DOWN, UP, UP] {
            queue.offer(now, input);
        }
        let expected = [DOWN, DOWN, UP].map(|input| QueuedInput::Input(now, input));
        assert_eq!(drained(&mut noted), expected);
    }

    #[tokio::test]
    async fn what_was_lost_at_the_end_is_told() {
        let (mut queue, mut noted) = InputQueue::new();
        for _ in 0..QUEUE + 2 {
            queue.offer(Instant::now(), key(true));
        }
        let log = ActionLog { reader: InputReader::default(), queue };
        let read = async {
            let mut last = None;
            while let Some(next) = noted.recv().await {
                last = Some(next);
            }
            last
        };
        let ((), last) = tokio::join!(log.close(), read);
        assert_eq!(last, Some(QueuedInput::Lost(2)));
    }
}
