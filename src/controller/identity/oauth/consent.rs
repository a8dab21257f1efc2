//! Consent page of the authorization endpoint: it shows the client, where the response goes, and the choice
//! of a workspace, A64 (docs/authentication-rules.md).

use axum::response::Response;
use maud::{Markup, html};

use super::authorization_request::AuthorizationRequest;
use crate::web::page::page_to;
use hotdesk_domain::identity::oauth::client::Client;
use hotdesk_domain::identity::oauth::client_id;
use hotdesk_domain::identity::oauth::redirect::Redirect;
use hotdesk_store::identity::oauth::grants::GrantableWorkspace;

/// The signed-in person.
pub(super) struct Person<'a> {
    /// E-mail address of the account.
    pub email: &'a str,
    /// Form token.
    pub csrf: &'a str,
    /// Workspaces that the person may choose.
    pub choices: &'a [GrantableWorkspace],
    /// Names of workspaces that the person may only view.
    pub viewed: &'a [String],
}

/// Returns the consent page for a query.
pub(super) fn page(request: &AuthorizationRequest, person: &Person<'_>, query: &str) -> Response {
    let target = Redirect::parse(&request.redirect_uri).ok();
    let shown = target.map(|redirect| redirect.shown()).unwrap_or_default();
    let note = match target {
        Some(Redirect::App(_)) => " (an app on this machine)",
        Some(redirect) if redirect.is_local() => " (this machine)",
        Some(_) | None => "",
    };
    let body = html! {
        p { strong { (name(&request.client)) } " asks for access to the computers of one of your workspaces: \
            see their screens, use mouse and keyboard, run commands, and start and stop them." }
        table {
            tr { th scope="row" { "Program" } td { (origin(&request.client)) } }
            tr { th scope="row" { "Access is sent to" } td.code { (shown) (note) } }
            tr { th scope="row" { "Signed in as" } td { (person.email) } }
        }
        @if request.client.is_local_only() {
            p.bad role="note" { "This program runs on your own machine, where any other program can pretend to be \
                it. Allow it only if you have just started it yourself." }
        }
        form.card method="post" action={ "/oauth/authorize?" (query) } {
            input type="hidden" name="csrf" value=(person.csrf);
            (choice(person))
            div.actions {
                @if !person.choices.is_empty() { button.button.primary name="decision" value="allow" { "Allow" } }
                button.button name="decision" value="deny" { "Deny" }
            }
        }
        p.dim { "The connection lasts 30 days at most. You can end it at any time under " a href="/settings/connections" { "connections" } "." }
    };
    let source = target.map(|redirect| redirect.csp_source()).unwrap_or_default();
    page_to("Allow access?", &body, &source)
}

fn choice(person: &Person<'_>) -> Markup {
    html! {
        @if person.choices.is_empty() {
            p {
                "You have no workspace to which you could give it access. " a href="/settings/workspaces" { "Create one" }
                " first, then reload this page."
            }
        } @else {
            label.field {
                span { "Workspace that it may use" }
                select name="workspace" required {
                    @for choice in person.choices {
                        option value=(choice.id) {
                            (choice.name) @if choice.owner != person.email { " (of " (choice.owner) ")" }
                        }
                    }
                }
            }
        }
        @if !person.viewed.is_empty() {
            p.dim { "You only view " (person.viewed.join(", ")) ": a client needs a workspace in which you are more than a viewer." }
        }
    }
}

/// Returns the client's name, or a text for one without a name.
fn name(client: &Client) -> &str {
    client.name.as_deref().unwrap_or("A program without a name")
}

fn origin(client: &Client) -> Markup {
    html! {
        @if client_id::is_url(&client.id) {
            "described at " span.code { (client.id) }
        } @else {
            "registered itself under this name; nobody has checked it"
        }
    }
}
