//! Delivery of webhooks: rendered from the template's own definition, signed, and repeated until the receiver takes them.
//!
//! ```text
//! agent -- trigger, action, event --> runner (rate) --> queue --> definition + event --> attempts --> outcome to the agent
//! ```
//! The agent is not trusted, T5 (docs/security.md): it only names an action of the template. Where a webhook goes is what the
//! template says, at public addresses (T6); only values of the event are the computer's.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde_json::{Value, json};

use super::super::{Templates, parse};
use crate::computers::runner::template::requests::{WebhookRequest, report};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::secret::Secret;
use hotdesk_base::tasks::Tasks;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::computer::template::trigger::render;
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::network::webhook::{
    ATTEMPT_TIMEOUT, COMPUTER_HEADER, DELIVERY_TIMEOUT, Delivery, MAX_BODY, MAX_HEADER, MAX_URL,
    RETRY_PAUSES, WebhookSecret, in_header, in_json, in_url, judge,
};
use hotdesk_http::guarded_fetch::{GuardedFetcher, OutgoingRequest, Reach};
use hotdesk_wire::template::Choice as _;
use hotdesk_wire::template::trigger::TriggerAction;

/// Type of a body that is JSON.
const CONTENT_TYPE_JSON: &str = "application/json";

/// The signing of webhooks, and their delivery.
#[derive(Clone)]
pub struct Webhooks {
    installation_secret: Secret,
    reach: Reach,
}

/// Sender of deliveries.
struct WebhookSender {
    webhooks: Webhooks,
    templates: Templates,
    fetcher: GuardedFetcher,
}

/// A webhook of a definition.
struct WebhookDefinition {
    url: String,
    method: Method,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Webhooks {
    /// Makes the signing of an installation. `allow_private` permits receivers at addresses that are not public.
    pub fn new(installation_secret: Secret, allow_private: bool) -> Self {
        Self { installation_secret, reach: if allow_private { Reach::All } else { Reach::Public } }
    }

    /// The secret that signs the webhooks of an account.
    ///
    /// # Errors
    /// `Internal` when HMAC fails.
    pub fn secret(&self, account: AccountId) -> Result<WebhookSecret> {
        WebhookSecret::derive(self.installation_secret.reveal().as_bytes(), &account.to_string())
    }

    /// Begins the delivery of what runners queue.
    pub fn start(&self, templates: &Templates, fetcher: GuardedFetcher, tasks: &Tasks) {
        let Some(mut receiver) = templates.0.fleet.shared.webhooks.take_receiver() else { return };
        let sender = WebhookSender { webhooks: self.clone(), templates: templates.clone(), fetcher };
        let (sender, deliveries, stop) = (Arc::new(sender), tasks.clone(), tasks.stopping());
        let _task = tasks.spawn("webhooks", async move {
            loop {
                let request = tokio::select! {
                    () = stop.cancelled() => return,
                    request = receiver.recv() => request,
                };
                let Some(request) = request else { return };
                let (sender, stop) = (Arc::clone(&sender), stop.clone());
                let _delivery = deliveries.spawn("webhook", async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = sender.handle(request) => {}
                    }
                });
            }
        });
    }
}

impl WebhookSender {
    async fn handle(&self, request: WebhookRequest) {
        let delivered = tokio::time::timeout(DELIVERY_TIMEOUT, self.deliver(&request)).await;
        let error = match delivered {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                tracing::info!(
                    computer = %request.computer.id,
                    trigger = request.trigger.chars().take(64).collect::<String>(),
                    error = format_args!("{error:#}"),
                    "a webhook was not delivered"
                );
                Some(error.message)
            }
            Err(_) => Some("the webhook was not delivered in time".to_owned()),
        };
        report(&request.computer, &request.guest, &request.instance, request.number, error).await;
    }

    async fn deliver(&self, request: &WebhookRequest) -> Result<()> {
        let definition = self.definition(request).await?;
        let outgoing = rendered(&definition, request)?;
        // The same after a repetition, so that a receiver may recognise it.
        let instance: String =
            request.instance.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let id = format!("msg_{}_{instance}_{}", request.computer.id, request.number);
        let secret = self.webhooks.secret(request.computer.owner)?;
        let mut pauses = RETRY_PAUSES.into_iter();
        loop {
            let failed = match self.attempt(&secret, &id, outgoing.clone()).await {
                Ok(status) => match judge(status) {
                    Delivery::Done => return Ok(()),
                    Delivery::Retry => {
                        Error::unavailable(format!("the receiver answered with the status {status}"))
                    }
                    Delivery::Refused => {
                        return Err(Error::conflict(format!(
                            "the receiver refused it with the status {status}"
                        )));
                    }
                },
                Err(error) if error.kind == Kind::Unavailable => error,
                Err(error) => return Err(error),
            };
            match pauses.next() {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(failed),
            }
        }
    }

    /// The action in the template that the computer was launched from.
    async fn definition(&self, request: &WebhookRequest) -> Result<WebhookDefinition> {
        let computer = &request.computer;
        let reference = computer.template.as_deref().and_then(TemplateRef::parse);
        let reference = reference.ok_or_else(|| Error::not_found("the computer has no template"))?;
        let template = self.templates.find(computer.owner, &reference).await.map_err(|error| {
            let what =
                format!("the template {reference} does not exist any more, so its webhooks are not sent");
            if error.kind == Kind::NotFound { Error::not_found(what) } else { error }
        })?;
        let definition = parse(&template).await?;
        let trigger = definition.triggers.iter().find(|trigger| trigger.name == request.trigger);
        let action = trigger.and_then(|trigger| trigger.actions.get(request.action));
        let Some(TriggerAction::Webhook { url, method, headers, body }) = action else {
            return Err(Error::not_found(format!("the template {reference} has no such webhook")));
        };
        let values = definition.values()?;
        let headers = headers.iter().map(|(name, value)| Ok((name.clone(), values.expand(value)?)));
        Ok(WebhookDefinition {
            url: values.expand(url)?,
            method: Method::from_bytes(method.word().as_bytes()).map_err(Error::internal)?,
            headers: headers.collect::<Result<_>>()?,
            body: body.as_deref().map(|body| values.expand(body)).transpose()?,
        })
    }

    async fn attempt(&self, secret: &WebhookSecret, id: &str, mut request: OutgoingRequest) -> Result<u16> {
        let seconds = clock::now().as_seconds();
        let signature = secret.sign(id, seconds, &request.body)?;
        for (name, value) in [
            ("webhook-id", id),
            ("webhook-timestamp", &seconds.to_string()),
            ("webhook-signature", &signature),
        ] {
            request.headers.insert(name, HeaderValue::from_str(value).map_err(Error::internal)?);
        }
        let status = self.fetcher.send(request, self.webhooks.reach, ATTEMPT_TIMEOUT).await?;
        Ok(status.as_u16())
    }
}

/// The request without its signature.
fn rendered(definition: &WebhookDefinition, request: &WebhookRequest) -> Result<OutgoingRequest> {
    let event = &request.event;
    let too_large = |what: &str| Error::too_large(format!("the {what} of the webhook is too large"));
    let url = render(&definition.url, MAX_URL, |path| in_url(&event_text(event, path)));
    let url = url.ok_or_else(|| too_large("URL"))?;
    let (body, is_json) = match &definition.body {
        Some(text) => {
            let example = render(text, MAX_BODY, |_| "0".to_owned()).ok_or_else(|| too_large("body"))?;
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&example).is_ok();
            let value = |path: &str| {
                let text = event_text(event, path);
                if is_json { in_json(&text) } else { text }
            };
            (render(text, MAX_BODY, value).ok_or_else(|| too_large("body"))?, is_json)
        }
        None => {
            let computer = request.computer.id.to_string();
            let all = json!({"computer_id": computer, "trigger": request.trigger, "event": event});
            (all.to_string(), true)
        }
    };
    let has_body = !matches!(definition.method, Method::GET | Method::HEAD);
    let body = if has_body { body.into_bytes() } else { Vec::new() };
    if body.len() > MAX_BODY {
        return Err(too_large("body"));
    }
    let mut headers = HeaderMap::new();
    if has_body {
        let kind = if is_json { CONTENT_TYPE_JSON } else { "text/plain; charset=utf-8" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    for (name, value) in &definition.headers {
        let value = render(value, MAX_HEADER, |path| event_text(event, path));
        let value = in_header(&value.ok_or_else(|| too_large("header"))?);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(Error::internal)?;
        headers.insert(name, HeaderValue::from_str(&value).map_err(Error::internal)?);
    }
    let computer = HeaderValue::from_str(&request.computer.id.to_string()).map_err(Error::internal)?;
    headers.insert(COMPUTER_HEADER, computer);
    Ok(OutgoingRequest { method: definition.method.clone(), url, headers, body })
}

/// The text of an event's field.
fn event_text(event: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(event, |value, name| value.get(name));
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
