//! Published templates: publish, list and delete.

use std::path::Path;
use std::process::ExitCode;

use reqwest::{Method, header};

use super::{build, definition};
use crate::client::Session;
use crate::client::api::REQUEST_TIMEOUT;
use crate::failure::Outcome;
use crate::output::{self, Column, Confirmation, ListView};
use hotdesk_wire::computer::template::{PublishQuery, PublishedTemplate, Template, TemplateList};
use hotdesk_wire::template::validate;

/// Publishes a definition file, and builds it if asked to. An invalid file is not sent; the exit code is 1 then.
///
/// # Errors
/// When the file cannot be read, or the server refuses the request or is unreachable.
pub async fn publish(session: &Session, file: &Path, build: bool, force: bool) -> Outcome {
    let document = definition::with_files(file, definition::read(file)?)?;
    if let Err(errors) = validate(&document) {
        definition::report(file, &errors);
        return Ok(ExitCode::FAILURE);
    }
    let query = PublishQuery { auto_build: None, force: force.then_some(true) };
    let request = session.api.request(Method::POST, session.api.url(&["templates"])).query(&query);
    let request = request.header(header::CONTENT_TYPE, "application/yaml").body(document);
    let response = session.api.send(request.timeout(REQUEST_TIMEOUT)).await?;
    let published: PublishedTemplate = response.decode()?;
    session.show(&response, || {
        output::line(&format!("Published {} ({}).", published.reference, published.digest))
    })?;
    if build { build::begin(session, &published.reference, false).await } else { Ok(ExitCode::SUCCESS) }
}

/// Lists the templates of the account, and with `all` those of the service.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn list(session: &Session, all: bool, view: ListView) -> Outcome<()> {
    let response = session.api.get(&["templates"], &[], REQUEST_TIMEOUT).await?;
    let mut list: TemplateList = response.decode()?;
    if all {
        let of_service = session.api.get(&["templates", "global"], &[], REQUEST_TIMEOUT).await?;
        list.templates.extend(of_service.decode::<TemplateList>()?.templates);
        if session.json {
            return output::line(&serde_json::to_string(&list).map_err(|error| error.to_string())?);
        }
    }
    session.show(&response, || {
        let row =
            |it: Template| vec![it.reference, it.status, it.published_at.unwrap_or_default(), it.digest];
        let rows = list.templates.into_iter().map(row).collect();
        let columns = [
            Column::Text("TEMPLATE"),
            Column::Text("BUILD"),
            Column::Text("PUBLISHED"),
            Column::Id("DIGEST"),
        ];
        output::list(
            view,
            &columns,
            rows,
            "There are no templates. Publish one: hotdesk templates publish FILE; those of the service: --all",
        )
    })
}

/// Shows a template. The document below its fields is a definition file.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn show(session: &Session, template: &str) -> Outcome<()> {
    let path = build::path(template)?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let response = session.api.get(&path, &[], REQUEST_TIMEOUT).await?;
    let it: Template = response.decode()?;
    let document = serde_json::to_string_pretty(&it.template).map_err(|error| error.to_string())?;
    session.show(&response, || {
        output::fields([
            ("template", it.reference),
            ("digest", it.digest),
            ("build", it.status),
            ("published", it.published_at.unwrap_or_else(|| "with the service".to_owned())),
        ])?;
        output::line(&format!("\n{document}"))
    })
}

/// Deletes a template.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn delete(session: &Session, template: &str, confirmation: Confirmation) -> Outcome<()> {
    let path = build::path(template)?;
    confirmation.ask(async || Ok(format!("Delete the template {template}?"))).await?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let response = session.api.call(Method::DELETE, &path, None::<&()>, REQUEST_TIMEOUT).await?;
    session.show(&response, || output::line(&format!("Deleted the template {template}.")))
}
