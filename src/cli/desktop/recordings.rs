//! `hotdesk record`: recordings of a screen as video.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use reqwest::Method;

use super::ScreenArg;
use super::selection::{Selectable, select};
use super::share::seconds;
use crate::client::api::{Api, REQUEST_TIMEOUT};
use crate::client::{Session, download, resolve};
use crate::computers::{ComputerArg, ComputerListArg};
use crate::failure::{Failure, Outcome};
use crate::output;
use hotdesk_wire::desktop::recording::{Recording, RecordingList, StartRecording};

/// `hotdesk record`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start to record a screen.
    Start(StartOptions),
    /// Stop a recording. It can be downloaded then.
    Stop(RecordingArg),
    /// List recordings, oldest first.
    #[command(visible_alias = "ls")]
    List(ComputerListArg),
    /// Download the video of a recording as MP4, also while it is in progress.
    #[command(visible_alias = "get")]
    Download {
        #[command(flatten)]
        recording: RecordingArg,
        /// Output file; `-` is standard output. Default: a file named by the id.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Download the timeline instead: one JSON object a line for each action on the screen.
        #[arg(long)]
        timeline: bool,
    },
    /// Delete a recording.
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        target: ComputerArg,
        /// Recording: id, or the beginning of it.
        recording: String,
    },
}

/// `hotdesk record start`. The server supplies the defaults.
#[derive(Debug, Args)]
pub struct StartOptions {
    #[command(flatten)]
    target: ComputerArg,
    #[command(flatten)]
    screen: ScreenArg,
    /// Frames per second, 1 to 30 (server default: 10).
    #[arg(long)]
    fps: Option<u32>,
    /// Time after which it stops: seconds, or for example 90s or 15m; at most 1h (server default: 10m).
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    max: Option<u32>,
    /// Record no timeline of actions.
    #[arg(long)]
    no_timeline: bool,
}

/// The recording that a command acts on.
#[derive(Debug, Args)]
pub struct RecordingArg {
    #[command(flatten)]
    target: ComputerArg,
    /// Recording: id, or the beginning of it; default: the newest.
    recording: Option<String>,
}

impl Selectable for Recording {
    const KIND: (&'static str, &'static str) = ("recording", "record list");

    fn id(&self) -> &str {
        &self.id
    }

    fn is_named(&self, _: &str) -> bool {
        false
    }

    fn label(&self) -> String {
        self.id.clone()
    }
}

/// Runs a subcommand.
///
/// # Errors
/// When there is no such recording, a file cannot be written, the server refuses a request or is unreachable.
pub async fn run(command: Command, session: &Session) -> Outcome<()> {
    match command {
        Command::Start(options) => start(session, options).await,
        Command::Stop(recording) => stop(session, &recording).await,
        Command::List(ComputerListArg { target, watch }) => {
            watch.run(async || list(session, &target).await).await
        }
        Command::Download { recording, output, timeline } => {
            download(session, &recording, output.as_deref(), timeline).await
        }
        Command::Delete { target, recording } => {
            let recording = RecordingArg { target, recording: Some(recording) };
            let (computer, recording) = find(&session.api, &recording, false).await?;
            let path = ["computers", &computer, "recordings", &recording.id];
            let response = session.api.call(Method::DELETE, &path, None::<&()>, REQUEST_TIMEOUT).await?;
            session.show(&response, || output::line(&format!("Deleted recording {}.", recording.id)))
        }
    }
}

async fn start(session: &Session, options: StartOptions) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.target.computer).await?;
    let body = StartRecording {
        screen: options.screen.screen,
        fps: options.fps,
        max_seconds: options.max,
        timeline: options.no_timeline.then_some(false),
    };
    let path = ["computers", &id, "recordings"];
    let response = session.api.call(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await?;
    let made: Recording = response.decode()?;
    session.show(&response, || {
        output::line(&format!("Recording {} of screen {} has started.", made.id, made.screen))
    })
}

async fn stop(session: &Session, wanted: &RecordingArg) -> Outcome<()> {
    let (computer, recording) = find(&session.api, wanted, true).await?;
    let path = ["computers", &computer, "recordings", &recording.id, "stop"];
    let response = session.api.call(Method::POST, &path, None::<&()>, REQUEST_TIMEOUT).await?;
    let ended: Recording = response.decode()?;
    session.show(&response, || {
        let (seconds, size) = (ended.seconds, ended.size_bytes);
        output::line(&format!("Recording {} has {seconds:.1} s ({size} bytes).", ended.id))
    })
}

async fn list(session: &Session, target: &ComputerArg) -> Outcome<()> {
    let id = resolve::computer(&session.api, &target.computer).await?;
    let response = session.api.get(&["computers", &id, "recordings"], &[], REQUEST_TIMEOUT).await?;
    let list: RecordingList = response.decode()?;
    session.show(&response, || {
        if list.recordings.is_empty() {
            return output::line("There are no recordings.");
        }
        let row = |it: Recording| {
            let (length, size) = (format!("{:.1} s", it.seconds), format!("{} B", it.size_bytes));
            let picture = format!("{}x{}, {} fps", it.width, it.height, it.fps);
            vec![it.started_at, it.status, length, size, picture, it.screen, it.id]
        };
        let headings = ["STARTED", "STATUS", "LENGTH", "SIZE", "PICTURE", "SCREEN", "ID"];
        output::table(&headings, list.recordings.into_iter().map(row).collect())
    })
}

async fn download(
    session: &Session,
    wanted: &RecordingArg,
    file: Option<&Path>,
    timeline: bool,
) -> Outcome<()> {
    if session.json {
        return Err(Failure::Usage("a download has no JSON response: drop --json".to_owned()));
    }
    let (computer, recording) = find(&session.api, wanted, false).await?;
    let (part, extension) = if timeline { ("timeline", "jsonl") } else { ("video", "mp4") };
    let default_file = PathBuf::from(format!("hotdesk-{}.{extension}", recording.id));
    let url = session.api.url(&["computers", &computer, "recordings", &recording.id, part]);
    let request = session.api.request(Method::GET, url);
    match file {
        Some(file) if file == Path::new("-") => download::to_stdout(&session.api, request).await,
        file => {
            let file = file.unwrap_or(&default_file);
            let size = download::to_file(&session.api, request, file).await?;
            output::line(&format!("{} ({size} bytes)", file.display()))
        }
    }
}

/// Computer id and recording: the named one, else the newest, or the newest in progress.
async fn find(api: &Api, wanted: &RecordingArg, in_progress: bool) -> Outcome<(String, Recording)> {
    let computer = resolve::computer(api, &wanted.target.computer).await?;
    let list = api.get(&["computers", &computer, "recordings"], &[], REQUEST_TIMEOUT).await?;
    let RecordingList { recordings } = list.decode()?;
    let found = match &wanted.recording {
        Some(wanted) => select(&recordings, wanted)?,
        None => {
            let newest = recordings.iter().rfind(|it| !in_progress || it.status == "recording");
            let missing = if in_progress { "recording in progress" } else { "recordings" };
            let computer = &wanted.target.computer;
            newest.ok_or_else(|| {
                format!("{computer} has no {missing}: start one with `hotdesk record start {computer}`")
            })?
        }
    };
    Ok((computer, found.clone()))
}
