//! Failed builds as computers to look into.

use reqwest::Method;

use super::build::path;
use crate::client::api::{CREATE_TIMEOUT, REQUEST_TIMEOUT};
use crate::client::{Session, wait};
use crate::copy::guest_files::GuestFiles;
use crate::failure::Outcome;
use crate::output;
use crate::progress::Progress;
use hotdesk_wire::computer::template::TemplateDebug;

/// Folder of the scripts in the computer.
const FOLDER: &str = "/root/build";

/// Opens the last build of a template, which failed, as a throw-away computer with the scripts that are left. Prints its id,
/// and on standard error how to go on.
///
/// # Errors
/// When the text is no template, or the server refuses a request or is unreachable.
pub async fn debug(session: &Session, template: &str) -> Outcome<()> {
    let mut path = path(template)?;
    path.push("debug".to_owned());
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let progress = Progress::operation("template-debug", format!("opening the build of {template}"));
    let launching = session.api.call(Method::POST, &path, None::<&()>, CREATE_TIMEOUT);
    let response = wait::or_interrupt(launching, || wait::creation_goes_on(template)).await?;
    let opened: TemplateDebug = response.decode()?;
    let files = GuestFiles { session, name: &opened.name, id: opened.id.clone() };
    for (number, step) in (1..).zip(&opened.steps) {
        let script = script(number);
        let query = [("path", &*script), ("parents", "true"), ("mode", "755")];
        let request = files.request(Method::PUT, &["content"], &query).body(step.script.clone());
        session.api.send(request.timeout(REQUEST_TIMEOUT)).await?;
    }
    progress.complete();
    session.show(&response, || {
        output::line(&opened.id)?;
        eprintln!("Finished steps: {}.", listed(opened.finished.iter().cloned()));
        let left =
            (1..).zip(&opened.steps).map(|(number, step)| format!("{} ({})", script(number), step.field));
        eprintln!("Steps that are left: {}.", listed(left));
        eprintln!("To run the next one: hotdesk bash {} 'bash -ex {}'", opened.name, script(1));
        eprintln!("The service deletes {} at {}.", opened.name, opened.expires_at);
        Ok(())
    })
}

/// Path of the script of a step that is left, the first of which has number 1.
fn script(number: usize) -> String {
    format!("{FOLDER}/{number}.sh")
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
