//! What is a person asked before a client gets in? Who says that it is whom, where the answer goes, and into which workspace
//! (access.md A64).

use axum::response::Response;
use maud::{Markup, html};

use super::authorize::Asked;
use crate::console::page::page_to;
use hotdesk_domain::oauth::client::Client;
use hotdesk_domain::oauth::client_id;
use hotdesk_domain::oauth::redirect::Redirect;
use hotdesk_store::oauth_grants::Choice;

/// Who is asked.
pub(super) struct Person<'a> {
    /// Whose account it is.
    pub email: &'a str,
    /// What its forms carry.
    pub csrf: &'a str,
    /// The workspaces that it may choose from.
    pub choices: &'a [Choice],
    /// The names of those that it only views.
    pub viewed: &'a [String],
}

/// The page, at the address of a query.
pub(super) fn page(asked: &Asked, person: &Person<'_>, query: &str) -> Response {
    let target = Redirect::parse(&asked.redirect_uri).ok();
    let host = target.map(|redirect| redirect.host()).unwrap_or_default();
    let local = target.is_some_and(|redirect| redirect.is_local());
    let body = html! {
        p { strong { (name(&asked.client)) } " wants to work with the computers of one of your workspaces: see their screens, \
            use mouse and keyboard, run commands, start and stop them." }
        table {
            tr { th scope="row" { "Program" } td { (origin(&asked.client)) } }
            tr { th scope="row" { "The answer goes to" } td.code { (host) @if local { " (this machine)" } } }
            tr { th scope="row" { "Signed in as" } td { (person.email) } }
        }
        @if asked.client.is_local_only() {
            p.bad role="note" { "This program runs on your own machine, where any other can pretend to be it. Go on only if you \
                have just started it yourself." }
        }
        form.card method="post" action={ "/oauth/authorize?" (query) } {
            input type="hidden" name="csrf" value=(person.csrf);
            (choice(person))
            @if !person.choices.is_empty() { button name="decision" value="allow" { "Let it in" } " " }
            button.quiet name="decision" value="deny" { "Refuse" }
        }
        p.dim { "The connection lasts 30 days at most. You can end it at any time under " a href="/settings/connections" { "connections" } "." }
    };
    page_to("Let a program in?", &body, &lead(target))
}

fn choice(person: &Person<'_>) -> Markup {
    html! {
        @if person.choices.is_empty() {
            p {
                "You have no workspace that it could be let into. " a href="/settings/workspaces" { "Make one" }
                " first, then load this page again."
            }
        } @else {
            label {
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
            p.dim { "You only view " (person.viewed.join(", ")) ": a client needs a workspace that you work in." }
        }
    }
}

/// What a client calls itself, or that it does not.
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

/// What the browser must let the form lead on to. Its policy knows no addresses of IPv6 (CSP 3 section 2.3.1).
fn lead(target: Option<Redirect<'_>>) -> String {
    match target {
        Some(redirect) if redirect.host().starts_with('[') => "http: https:".to_owned(),
        Some(redirect) => redirect.origin(),
        None => String::new(),
    }
}
