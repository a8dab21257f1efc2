//! How does a person take over an account that an AI agent made? By its claim link: the page shows what the account holds, and
//! the person chooses what to keep.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use super::page::{Failure, page};
use crate::auth::keys;
use crate::auth::session::{Posted, SignedIn};
use crate::{App, Shared};
use hotdesk_base::clock::iso8601;
use hotdesk_domain::counted::counted;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::extract::Path;
use hotdesk_store::agents::AgentAccount;
use hotdesk_store::computers::Computer;
use hotdesk_store::find::Filter;
use hotdesk_store::keys::Key;
use hotdesk_store::takeover::{Choice, no_claim};
use hotdesk_store::workspaces::Workspace;

/// Form fields of a workspace, of a computer and of a key begin so, and go on with the id.
const WORKSPACE: &str = "workspace.";
const COMPUTER: &str = "computer.";
const KEY: &str = "key.";

/// The page for it.
pub fn router() -> Router<Shared> {
    Router::new().route("/claim/{code}", get(show).post(take))
}

/// A workspace and what it holds.
struct Held {
    workspace: Workspace,
    computers: Vec<Computer>,
    files: u32,
}

/// What an account holds.
struct Holdings {
    workspaces: Vec<Held>,
    keys: Vec<Key>,
    /// The names of its saved streaming connections.
    connections: Vec<String>,
}

/// `GET /claim/{code}`.
async fn show(
    State(app): State<Shared>,
    who: SignedIn,
    Path(code): Path<String>,
) -> Result<Response, Failure> {
    let agent = app.store.agent_of_claim(&keys::digest(&code)).await?.ok_or_else(no_claim)?;
    let held = holdings(&app, &agent).await?;
    Ok(page("Take over an agent's account", &form(&agent, &held, &code, &who.csrf)))
}

/// `POST /claim/{code}`.
async fn take(
    State(app): State<Shared>,
    Path(code): Path<String>,
    posted: Posted<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let choice = chosen(&posted.form)?;
    let (person, digest) = (posted.who.account, keys::digest(&code));
    let taken = app.store.take_over(&digest, person, &choice, &app.plans).await?;
    app.end_streams(taken.streams);
    tracing::info!(account = %taken.agent, by = %person, "an agent's account was taken over");
    let (workspaces, computers, kept) = (choice.workspaces.len(), choice.computers.len(), choice.keys.len());
    Ok(page(
        "Taken over",
        &html! {
            p {
                "Yours now: " (workspaces) " workspaces with their files, "
                (computers) " computers and " (kept) " keys."
            }
            p.dim { "Whatever you did not choose is being removed. The link does not work any more." }
            p { a href="/settings" { "To the settings" } }
        },
    ))
}

async fn holdings(app: &App, agent: &AgentAccount) -> Result<Holdings> {
    let mut workspaces = Vec::new();
    // What others let it into is not its to hand over.
    let own = |workspace: &Workspace| workspace.account == agent.account;
    for workspace in app.store.workspaces(agent.account).await?.into_iter().filter(own) {
        let filter = Filter { workspace: Some(workspace.id), ..Filter::default() };
        let (computers, _) = app.store.computers(agent.account, &filter).await?;
        let files = app.store.files(workspace.id, None).await?.len();
        let files = u32::try_from(files).unwrap_or(u32::MAX);
        workspaces.push(Held { workspace, computers, files });
    }
    let keys = app.store.keys_of(agent.account).await?;
    let connections = app.store.stream_connections(agent.account, None).await?;
    let connections = connections.into_iter().map(|connection| connection.name).collect();
    Ok(Holdings { workspaces, keys, connections })
}

/// Reads what was chosen: `workspace.ID=take`, `computer.ID=take`, `key.ID=WORKSPACE`; an empty value is a key that ends.
/// What is not named is not taken.
fn chosen(fields: &[(String, String)]) -> Result<Choice> {
    let bad = |_| Error::invalid("the form names something that is no id");
    let mut choice = Choice::default();
    for (name, value) in fields {
        if let Some(id) = name.strip_prefix(WORKSPACE) {
            choice.workspaces.push(id.parse().map_err(bad)?);
        } else if let Some(id) = name.strip_prefix(COMPUTER) {
            choice.computers.insert(id.parse().map_err(bad)?);
        } else if let Some(id) = name.strip_prefix(KEY).filter(|_| !value.is_empty()) {
            choice.keys.insert(id.parse().map_err(bad)?, value.parse().map_err(bad)?);
        }
    }
    choice.workspaces.sort_unstable();
    choice.workspaces.dedup();
    Ok(choice)
}

fn form(agent: &AgentAccount, held: &Holdings, code: &str, csrf: &str) -> Markup {
    html! {
        p {
            "An AI agent that calls itself " strong { (agent.name) } " made this account on "
            (day(agent.created_at)) ". Unless somebody takes it over, it goes on " (day(agent.expires_at)) "."
        }
        p.dim { "Take it over only if this agent works for you: its computers will count in your plan." }
        form.card method="post" action={ "/claim/" (code) } {
            input type="hidden" name="csrf" value=(csrf);
            h2 { "Workspaces" }
            @if held.workspaces.is_empty() { p { "It has none." } }
            @for it in &held.workspaces {
                label {
                    input type="checkbox" name={ (WORKSPACE) (it.workspace.id) } value="take" checked;
                    " " strong { (it.workspace.name) } ": "
                    @if it.computers.is_empty() { "no computers, " }
                    (counted(it.files, "stored file"))
                }
                @if !it.computers.is_empty() {
                    ul aria-label={ "Computers of " (it.workspace.name) } {
                        @for computer in &it.computers {
                            li {
                                label {
                                    input type="checkbox" name={ (COMPUTER) (computer.id) } value="take" checked;
                                    " " (told(computer))
                                }
                            }
                        }
                    }
                }
            }
            h2 { "Keys" }
            p.dim { "A key that you keep reaches one of the workspaces that you take over, and nothing else of yours." }
            @for key in &held.keys {
                label {
                    span { (key.name) " (…" (key.last_four) ")" }
                    select name={ (KEY) (key.id) } {
                        option value="" { "End it" }
                        @for workspace in reached(key, held) {
                            option value=(workspace.id) { "Keep it for " (workspace.name) }
                        }
                    }
                }
            }
            @if !held.connections.is_empty() {
                p {
                    "Saved streaming connections: " (held.connections.join(", "))
                    ". Each comes along with a key that you keep and that may use it."
                }
            }
            p.dim { "What you do not choose is removed for good." }
            button { "Take over" }
        }
    }
}

/// The workspaces for which a key may be kept: those that it reaches.
fn reached<'a>(key: &'a Key, held: &'a Holdings) -> impl Iterator<Item = &'a Workspace> {
    let only = key.workspace.as_ref().map(|only| only.id);
    let workspaces = held.workspaces.iter().map(|it| &it.workspace);
    workspaces.filter(move |workspace| only.is_none_or(|only| only == workspace.id))
}

fn told(computer: &Computer) -> String {
    let (size, status) = (&computer.hardware, computer.status.name());
    format!(
        "{} ({status}, {} vCPU, {} GB RAM, {} GB disk)",
        computer.name, size.cpu, size.ram_gb, size.disk_gb
    )
}

fn day(ms: i64) -> String {
    iso8601(ms).chars().take(10).collect()
}
