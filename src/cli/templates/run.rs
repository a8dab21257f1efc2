//! Throw-away computers of templates.

use reqwest::Method;

use super::name::reference;
use crate::client::api::CREATE_TIMEOUT;
use crate::client::{Session, wait};
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_wire::computer::template::{RunTemplate, TemplateRun};

/// Launches a throw-away computer. Prints its id, and on standard error how to stop it.
///
/// # Errors
/// When the text is no template, or the server refuses the request or is unreachable.
pub async fn run(session: &Session, template: &str) -> Outcome<()> {
    let body = RunTemplate { reference: reference(template)?.to_string() };
    let progress = Progress::operation("template-run", format!("launching {}", body.reference));
    let launching = session.api.call(Method::POST, &["templates", "run"], Some(&body), CREATE_TIMEOUT);
    let response = wait::or_interrupt(launching, || wait::creation_goes_on(&body.reference)).await?;
    progress.complete();
    let run: TemplateRun = response.decode()?;
    session.show(&response, || {
        output::line(&run.id)?;
        eprintln!(
            "The service deletes it at {}. To stop it earlier: hotdesk computers delete {}",
            run.expires_at, run.id
        );
        Ok(())
    })
}
