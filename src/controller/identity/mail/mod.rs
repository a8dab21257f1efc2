//! Mail to people: a bounded queue, and one task that sends it by SMTP.
//!
//! ```text
//! send --> queue --> task: try --delivered--> (done)
//!   |                       |---transient---> pause, try again, at most ATTEMPTS times
//!   +--full--> 503          +---permanent---> log
//! ```
//! A request never waits for the mail server. Logs contain neither addresses nor texts of mails.

pub mod addresses;

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, SmtpSettings, SmtpTls};
use hotdesk_base::backoff::Backoff;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_base::step_error::StepError;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::error::{Error, Result};

/// Mails that wait: at a second each, the last one waits for a minute and a half.
const QUEUE: usize = 100;
/// Attempts for each mail. Further ones would delay the others; a person can request another mail.
const ATTEMPTS: u32 = 3;
/// Shortest and longest pause between two attempts.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Timeout of each step of SMTP.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds after which a person whom the full queue turned away tries again.
const RETRY_SECONDS: u32 = 30;

/// Mail to one person.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The account, for the log.
    pub account: AccountId,
    /// Address.
    pub to: String,
    /// Subject line.
    pub subject: &'static str,
    /// Text, which contains a link.
    pub text: Secret,
}

/// Sends mail, if a server is configured. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Mailer(Option<Sender>);

#[derive(Clone, Debug)]
struct Sender {
    queue: mpsc::Sender<Mail>,
    public_url: String,
}

/// Task that sends the queued mails, one after the other.
struct Worker {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    queue: mpsc::Receiver<Mail>,
}

impl Mailer {
    /// Starts the task that sends mails, if a server is configured; it is not contacted yet. Links in mails lead to
    /// the public URL.
    ///
    /// # Errors
    /// Those of [`Config::check_smtp`]; `Internal` when the sender's address or the file of the authority is invalid.
    pub fn open(config: &Config, tasks: &Tasks) -> Result<Self> {
        let settings = &config.smtp;
        if settings.host.is_empty() {
            tracing::info!(
                "[smtp] host is not set: no mail is sent, and e-mail addresses of people are not verified"
            );
            return Ok(Self(None));
        }
        let password = config.check_smtp()?;
        let from = settings.from.parse::<Mailbox>().map_err(|error| {
            Error::failed(format!("configuration: smtp.from {:?} is not an address: {error}", settings.from))
        })?;
        let transport = transport(settings, password.as_ref())?;
        let (sender, queue) = mpsc::channel(QUEUE);
        let (worker, stop) = (Worker { transport, from, queue }, tasks.stopping());
        let _sending = tasks.spawn("mail", worker.run(stop));
        Ok(Self(Some(Sender { queue: sender, public_url: config.public_url.clone() })))
    }

    /// Whether a mail server is configured.
    pub fn is_configured(&self) -> bool {
        self.0.is_some()
    }

    /// Queues a mail whose text is made from the public URL. Does nothing without a server.
    ///
    /// # Errors
    /// `Unavailable` when too many mails wait.
    pub fn send(&self, mail: impl FnOnce(&str) -> Mail) -> Result<()> {
        let Some(sender) = &self.0 else { return Ok(()) };
        sender.queue.try_send(mail(&sender.public_url)).map_err(|_| {
            Error::unavailable("Too many mails wait to be sent: try again later").retry_after(RETRY_SECONDS)
        })
    }
}

/// Whether mail can be sent to an address: SMTP allows fewer characters than the sign-in.
pub fn is_deliverable(address: &str) -> bool {
    address.parse::<Address>().is_ok()
}

fn transport(
    settings: &SmtpSettings,
    password: Option<&Secret>,
) -> Result<AsyncSmtpTransport<Tokio1Executor>> {
    let wrong = |what: String| Error::failed(format!("configuration: [smtp] {what}"));
    // A process has one provider. The call fails when another one is installed, which works as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut parameters = TlsParameters::builder(settings.host.clone());
    if !settings.ca_file.as_os_str().is_empty() {
        let shown = settings.ca_file.display();
        let pem =
            std::fs::read(&settings.ca_file).map_err(|error| wrong(format!("ca_file {shown}: {error}")))?;
        let authority =
            Certificate::from_pem(&pem).map_err(|error| wrong(format!("ca_file {shown}: {error}")))?;
        parameters = parameters.add_root_certificate(authority);
    }
    let parameters =
        || parameters.build_rustls().map_err(|error| wrong(format!("cannot set up TLS: {error}")));
    let tls = match settings.tls {
        SmtpTls::Starttls => Tls::Required(parameters()?),
        SmtpTls::Implicit => Tls::Wrapper(parameters()?),
        SmtpTls::None => Tls::None,
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&settings.host)
        .port(settings.port)
        .tls(tls)
        .timeout(Some(STEP_TIMEOUT));
    if let Some(password) = password {
        builder = builder.credentials(Credentials::new(settings.user.clone(), password.reveal().to_owned()));
    }
    Ok(builder.build())
}

impl Worker {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let mail = tokio::select! {
                () = stop.cancelled() => return,
                mail = self.queue.recv() => mail,
            };
            let Some(mail) = mail else { return };
            let account = mail.account;
            tokio::select! {
                () = stop.cancelled() => {
                    tracing::warn!(%account, "the controller stops before a mail was delivered");
                    return;
                }
                delivered = self.deliver(mail) => match delivered {
                    Ok(()) => tracing::info!(%account, "a mail was handed to the mail server"),
                    Err(error) => tracing::warn!(%account, %error, "a mail was not delivered: check [smtp] of the configuration"),
                },
            }
        }
    }

    /// Hands a mail to the server. The error has no address and no text of the mail.
    async fn deliver(&self, mail: Mail) -> Result<(), StepError> {
        let to =
            mail.to.parse::<Address>().map_err(|_| StepError::new("the address is not valid for mail"))?;
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(mail.subject)
            .body(mail.text.reveal().to_owned())
            .map_err(|_| StepError::new("the mail cannot be encoded"))?;
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE, MAX_PAUSE);
        let mut attempt = 1;
        loop {
            let sent = tokio::time::timeout(ATTEMPT_TIMEOUT, self.transport.send(message.clone())).await;
            let (is_final, why) = match sent {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => (error.is_permanent(), describe(&error)),
                Err(_) => (false, "no answer in time".to_owned()),
            };
            if is_final || attempt >= ATTEMPTS {
                return Err(StepError::new(why));
            }
            attempt += 1;
            tokio::time::sleep(backoff.after(Duration::ZERO)).await;
        }
    }
}

/// The kind of a failure. The server's own text may quote the address.
fn describe(error: &lettre::transport::smtp::Error) -> String {
    match error.status() {
        Some(status) => format!("the mail server refused it with status {status}"),
        None if error.is_tls() => "the TLS connection to the mail server failed".to_owned(),
        None if error.is_timeout() => "the mail server did not answer in time".to_owned(),
        None => "the mail server could not be reached, or offers no TLS or authentication".to_owned(),
    }
}
