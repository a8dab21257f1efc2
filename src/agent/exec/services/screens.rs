//! Actions and streams of a template on the screens of its computer.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::process::Command;

use super::{Parts, Services};
use hotdesk_base::backoff::Backoff;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::desktop::call::ComputerCall;
use hotdesk_wire::desktop::stream::{StartStream, StreamStarted, StreamTo};
use hotdesk_wire::programs::service::StreamProgram;

/// Pauses between two attempts to begin a stream: its server, the network or the screen may not be ready after a boot.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Marks that the stream of the boot has begun, or will not.
const STREAMED: &str = "stream-begun";
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
        self.parts.screens()?.stream(self.parts.stream_to(stream, request.screen).await?).await
    }
}

/// Begins the stream that each boot begins, in the background, once for a boot.
pub(super) fn begin(parts: &Arc<Parts>, streams: &[StreamProgram]) {
    let Some(stream) = streams.iter().find(|stream| stream.autostart).cloned() else { return };
    if parts.is_done(STREAMED) {
        return;
    }
    let (parts, stop) = (Arc::clone(parts), parts.tasks.stopping());
    let tasks = parts.tasks.clone();
    let _task = tasks.spawn("stream of the template", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = parts.begin_stream(&stream) => parts.mark_done(STREAMED),
        }
    });
}

/// Whether another start of a stream would fail in the same way, or is not wanted: a person was faster, or stopped it.
fn is_final(error: &Error) -> bool {
    let ends = [ErrorCode::AlreadyStreaming, ErrorCode::StreamStopped, ErrorCode::NoEncoder];
    error.kind == Kind::Invalid || error.code.is_some_and(|code| ends.contains(&code))
}

impl Parts {
    /// Repeats the start until a stream runs, or is not wanted any more.
    async fn begin_stream(&self, stream: &StreamProgram) {
        let mut pauses = Backoff::new(MIN_PAUSE, MAX_PAUSE, Duration::MAX);
        loop {
            let began = Instant::now();
            // A start is not cut short here: a stop ends it with an error.
            let Err(error) = self.try_stream(stream).await else { return };
            if is_final(&error) {
                tracing::info!(
                    stream = stream.name,
                    error = format_args!("{error:#}"),
                    "the stream of the template does not begin"
                );
                return;
            }
            tracing::warn!(
                stream = stream.name,
                error = format_args!("{error:#}"),
                "could not begin the stream of the template; it is retried"
            );
            tokio::select! {
                () = self.stream_start.cancelled() => return,
                () = tokio::time::sleep(pauses.after(began.elapsed())) => {}
            }
        }
    }

    /// Starts the stream of the boot, unless it is not wanted any more.
    async fn try_stream(&self, stream: &StreamProgram) -> Result<()> {
        let to = self.stream_to(stream, None).await?;
        if self.stream_start.is_cancelled() {
            return Err(Error::conflict("The stream was stopped").code(ErrorCode::StreamStopped));
        }
        self.screens()?.stream(to).await.map(drop)
    }

    async fn stream_to(&self, stream: &StreamProgram, screen: Option<String>) -> Result<StreamTo> {
        let key = match (&stream.key, &stream.secret_key) {
            (Some(key), _) => Secret::new(key.clone()),
            (None, Some(name)) => self.secret(name).await?,
            (None, None) => return Err(Error::conflict("The stream of the template has no key")),
        };
        // Whoever wrote the template may run any program here: only the network of the computer bounds where it connects to.
        Ok(StreamTo { url: stream.url.clone(), key, screen, allow_private: true })
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::display::desktop::Headless;
    use hotdesk_base::tasks::Tasks;
    use hotdesk_base::wait;
    use hotdesk_http::feed::Feed;

    /// Screens whose streams do not begin.
    struct BrokenScreens {
        error: fn() -> Error,
        starts: AtomicUsize,
    }

    impl TemplateScreens for BrokenScreens {
        fn call(&self, _call: ComputerCall) -> BoxFuture<'static, Result<()>> {
            std::future::pending().boxed()
        }

        fn stream(&self, _to: StreamTo) -> BoxFuture<'static, Result<StreamStarted>> {
            self.starts.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Err((self.error)())).boxed()
        }
    }

    fn services(error: fn() -> Error) -> (Services, Arc<BrokenScreens>) {
        let (runtime, secrets) = (std::path::Path::new("/none/agent"), "/none/secrets".into());
        let services = Services::new(runtime, secrets, Arc::new(Headless), Feed::new(), Tasks::new());
        let screens = Arc::new(BrokenScreens { error, starts: AtomicUsize::new(0) });
        services.connect_screens(Arc::clone(&screens) as Arc<dyn TemplateScreens>);
        (services, screens)
    }

    #[tokio::test]
    async fn a_stream_is_begun_again_until_it_is_stopped_or_cannot_begin() {
        let stream = StreamProgram {
            name: "live".to_owned(),
            url: "rtmp://live.example/app".to_owned(),
            key: Some("k".to_owned()),
            secret_key: None,
            autostart: true,
        };
        let finals: [fn() -> Error; 4] = [
            || Error::conflict("stopped").code(ErrorCode::StreamStopped),
            || Error::conflict("a person was faster").code(ErrorCode::AlreadyStreaming),
            || Error::conflict("no ffmpeg").code(ErrorCode::NoEncoder),
            || Error::invalid("the key"),
        ];
        for error in finals {
            let (services, screens) = services(error);
            services.parts.begin_stream(&stream).await;
            assert_eq!(screens.starts.load(Ordering::Relaxed), 1, "{}", error());
        }
        let (services, screens) = services(|| Error::unavailable("no server"));
        let stop = async {
            let again = || async { (screens.starts.load(Ordering::Relaxed) == 2).then_some(()) };
            wait::until(Duration::from_secs(30), again).await.expect("a second start");
            services.stream_start().cancel();
        };
        tokio::join!(services.parts.begin_stream(&stream), stop);
        assert_eq!(screens.starts.load(Ordering::Relaxed), 2);
        services.parts.begin_stream(&stream).await;
        assert_eq!(screens.starts.load(Ordering::Relaxed), 2, "nor is it begun later");
    }
}
