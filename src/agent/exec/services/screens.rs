//! Actions and streams of a template on the screens of its computer.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::process::Command;

use super::{Parts, Services};
use hotdesk_base::backoff::Backoff;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::desktop::stream::{StartStream, StreamStarted, StreamTo};
use hotdesk_wire::programs::call::ComputerCall;
use hotdesk_wire::programs::service::StreamProgram;

/// Pauses between two attempts to begin a stream: its server, the network or the screen may not be ready after a boot.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Longest time to read a secret.
const SECRET_TIMEOUT: Duration = Duration::from_secs(5);

/// The screens of a computer, as templates use them.
pub trait TemplateScreens: Send + Sync {
    /// Does what a trigger calls.
    fn call(&self, call: ComputerCall) -> BoxFuture<'static, Result<()>>;

    /// Starts the stream of a screen.
    fn stream(&self, to: StreamTo) -> BoxFuture<'static, Result<StreamStarted>>;
}

impl Services {
    /// Connects the screens, once.
    pub fn connect_screens(&self, screens: Arc<dyn TemplateScreens>) {
        // A second call has no effect: an agent has one set of screens.
        let _ = self.parts.screens.set(screens);
    }

    /// Starts a stream of the template by its name.
    ///
    /// # Errors
    /// `NotFound` for a name that the template does not have; those of the agent's streams.
    pub async fn start_stream(&self, request: StartStream) -> Result<StreamStarted> {
        let programs = self.parts.programs().await?;
        let found = programs.streams.iter().find(|stream| stream.name == request.connection_name);
        let stream = found.ok_or_else(|| Error::not_found("Connection not found"))?;
        self.parts.start_stream(stream, request.screen).await
    }
}

/// Begins the stream that each boot begins, in the background.
pub(super) fn begin(parts: &Arc<Parts>, streams: &[StreamProgram]) {
    let Some(stream) = streams.iter().find(|stream| stream.autostart).cloned() else { return };
    let (parts, stop) = (Arc::clone(parts), parts.tasks.stopping());
    let tasks = parts.tasks.clone();
    let _task = tasks.spawn("stream of the template", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = parts.begin_stream(&stream) => {}
        }
    });
}

impl Parts {
    /// Repeats the start until a stream runs.
    async fn begin_stream(&self, stream: &StreamProgram) {
        let mut pauses = Backoff::new(MIN_PAUSE, MAX_PAUSE, Duration::MAX);
        loop {
            let began = Instant::now();
            match self.start_stream(stream, None).await {
                Ok(_) => return,
                // A person was faster.
                Err(error) if error.code == Some(ErrorCode::AlreadyStreaming) => return,
                Err(error) => tracing::warn!(
                    stream = stream.name,
                    error = format_args!("{error:#}"),
                    "could not begin the stream of the template; it is retried"
                ),
            }
            tokio::time::sleep(pauses.after(began.elapsed())).await;
        }
    }

    async fn start_stream(&self, stream: &StreamProgram, screen: Option<String>) -> Result<StreamStarted> {
        let key = match (&stream.key, &stream.secret_key) {
            (Some(key), _) => Secret::new(key.clone()),
            (None, Some(name)) => self.secret(name).await?,
            (None, None) => return Err(Error::conflict("The stream of the template has no key")),
        };
        // Whoever wrote the template may run any program here: only the network of the computer bounds where it connects to.
        let to = StreamTo { url: stream.url.clone(), key, screen, allow_private: true };
        self.screens()?.stream(to).await
    }

    /// The screens.
    ///
    /// # Errors
    /// `Unavailable` when the computer has none, or the agent has just started.
    pub(super) fn screens(&self) -> Result<&Arc<dyn TemplateScreens>> {
        self.screens.get().ok_or_else(|| Error::unavailable("The computer has no screen yet"))
    }

    /// The value of a secret of the computer.
    async fn secret(&self, name: &str) -> Result<Secret> {
        let file = shell_words::quote(&self.secrets_file.to_string_lossy()).into_owned();
        let script = format!("if [ -r {file} ]; then . {file}; fi\nprintf %s \"${{{name}-}}\"");
        let mut command = Command::new("bash");
        command
            .args(["-c", &script])
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let read = tokio::time::timeout(SECRET_TIMEOUT, command.output()).await;
        let output = read.map_err(Error::internal)?.map_err(Error::internal)?;
        let value = String::from_utf8(output.stdout).map_err(|_| Error::failed("a secret is no text"))?;
        if value.is_empty() {
            return Err(Error::conflict(format!(
                "The computer does not have the secret {name}: store it, and restart"
            )));
        }
        Ok(Secret::new(value))
    }
}
