//! Page of a claim link: a person takes over an account that an AI agent created, and chooses what to keep.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use super::console;
use crate::identity::auth::keys;
use crate::identity::auth::session::{SignedIn, SignedInForm};
use crate::web::page::{Failure, page};
use crate::{App, AppState};
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_domain::plural::plural;
use hotdesk_http::extract::Path;
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::fleet::find::ComputerFilter;
use hotdesk_store::identity::agent_accounts::AgentAccount;
use hotdesk_store::identity::api_keys::ApiKey;
use hotdesk_store::identity::takeover::{TakeoverSelection, claim_not_found};
use hotdesk_store::identity::workspaces::Workspace;

/// Prefixes of the form fields of a workspace, a computer and a key. The id follows.
const WORKSPACE: &str = "workspace.";
const COMPUTER: &str = "computer.";
const KEY: &str = "key.";

/// Returns the page's routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/claim/{code}", get(show).post(take))
}

/// A workspace and its contents.
struct WorkspaceHoldings {
    workspace: Workspace,
    computers: Vec<Computer>,
    files: u32,
}

/// Contents of an agent's account.
struct Holdings {
    workspaces: Vec<WorkspaceHoldings>,
    keys: Vec<ApiKey>,
    /// Names of its saved streaming connections.
    connections: Vec<String>,
}

/// `GET /claim/{code}`.
async fn show(
    State(app): State<AppState>,
    who: SignedIn,
    Path(code): Path<String>,
) -> Result<Response, Failure> {
    let agent = app.store.agent_account_of_claim(&keys::digest(&code)).await?.ok_or_else(claim_not_found)?;
    let holdings = holdings_of(&app, &agent).await?;
    Ok(page("Take over an agent's account", &form(&agent, &holdings, &code, &who.csrf)))
}

/// `POST /claim/{code}`.
async fn take(
    State(app): State<AppState>,
    Path(code): Path<String>,
    submitted: SignedInForm<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let choice = parse_choice(&submitted.form)?;
    let (person, digest) = (submitted.who.account, keys::digest(&code));
    let taken = app.store.take_over(&digest, person, &choice, &app.plans).await?;
    app.streams.end(taken.streams);
    tracing::info!(account = %taken.agent, by = %person, "a person took over an agent's account");
    let (workspaces, computers, kept) = (choice.workspaces.len(), choice.computers.len(), choice.keys.len());
    Ok(page(
        "Taken over",
        &html! {
            p {
                "You took over " (workspaces) " workspaces with their files, "
                (computers) " computers and " (kept) " keys."
            }
            p.dim { "Everything that you did not choose is being deleted. The link is no longer valid." }
            p { a href=(console::HOME) { "Go to the computers" } }
        },
    ))
}

async fn holdings_of(app: &App, agent: &AgentAccount) -> Result<Holdings> {
    let mut workspaces = Vec::new();
    // Workspaces of others are not the agent's to hand over.
    let own = |workspace: &Workspace| workspace.account == agent.account;
    for workspace in app.store.workspaces(agent.account).await?.into_iter().filter(own) {
        let filter = ComputerFilter { workspace: Some(workspace.id), ..ComputerFilter::default() };
        let (computers, _) = app.store.computers(agent.account, &filter).await?;
        let files = app.store.files(workspace.id, None).await?.len();
        let files = u32::try_from(files).unwrap_or(u32::MAX);
        workspaces.push(WorkspaceHoldings { workspace, computers, files });
    }
    let keys = app.store.keys_of(agent.account).await?;
    let connections = app.store.stream_connections(agent.account, None).await?;
    let connections = connections.into_iter().map(|connection| connection.name).collect();
    Ok(Holdings { workspaces, keys, connections })
}

/// Parses the choice: `workspace.ID=take`, `computer.ID=take`, `key.ID=WORKSPACE`. An empty value ends a key.
/// Things that the form does not name are not taken over.
fn parse_choice(fields: &[(String, String)]) -> Result<TakeoverSelection> {
    let bad = |_| Error::invalid("the form has an invalid id");
    let mut choice = TakeoverSelection::default();
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

fn form(agent: &AgentAccount, holdings: &Holdings, code: &str, csrf: &str) -> Markup {
    html! {
        p {
            "An AI agent that calls itself " strong { (agent.name) } " created this account on "
            (day(agent.created_at)) ". It is deleted on " (day(agent.expires_at)) " unless somebody takes it over."
        }
        p.dim { "Take it over only if this agent works for you: its computers will count towards your plan." }
        form.card method="post" action={ "/claim/" (code) } {
            input type="hidden" name="csrf" value=(csrf);
            h2 { "Workspaces" }
            @if holdings.workspaces.is_empty() { p { "There are none." } }
            @for it in &holdings.workspaces {
                label.switch {
                    input type="checkbox" name={ (WORKSPACE) (it.workspace.id) } value="take" checked;
                    span {
                        strong { (it.workspace.name) } ": "
                        @if it.computers.is_empty() { "no computers, " }
                        (plural(it.files, "stored file"))
                    }
                }
                @if !it.computers.is_empty() {
                    ul.choices aria-label={ "Computers of " (it.workspace.name) } {
                        @for computer in &it.computers {
                            li {
                                label.switch {
                                    input type="checkbox" name={ (COMPUTER) (computer.id) } value="take" checked;
                                    span { (summary(computer)) }
                                }
                            }
                        }
                    }
                }
            }
            h2 { "Keys" }
            p.dim { "A key that you keep gives access to one of the workspaces that you take over, and to nothing else of yours." }
            @for key in &holdings.keys {
                label.field {
                    span { (key.name) " (…" (key.last_four) ")" }
                    select name={ (KEY) (key.id) } {
                        option value="" { "Delete" }
                        @for workspace in workspaces_of(key, holdings) {
                            option value=(workspace.id) { "Keep for " (workspace.name) }
                        }
                    }
                }
            }
            @if !holdings.connections.is_empty() {
                p {
                    "Saved streaming connections: " (holdings.connections.join(", "))
                    ". You take over each one that a key that you keep may use."
                }
            }
            p.dim { "Everything that you do not choose is deleted permanently." }
            button.button.primary { "Take over" }
        }
    }
}

/// Returns the workspaces for which a key may be kept: those to which it gives access.
fn workspaces_of<'a>(key: &'a ApiKey, holdings: &'a Holdings) -> impl Iterator<Item = &'a Workspace> {
    let only = key.workspace.as_ref().map(|only| only.id);
    let workspaces = holdings.workspaces.iter().map(|it| &it.workspace);
    workspaces.filter(move |workspace| only.is_none_or(|only| only == workspace.id))
}

fn summary(computer: &Computer) -> String {
    let (size, status) = (&computer.hardware, computer.status.name());
    format!(
        "{} ({status}, {} vCPU, {} GB RAM, {} GB disk)",
        computer.name, size.cpu, size.ram_gb, size.disk_gb
    )
}

fn day(time: UnixMillis) -> String {
    time.iso8601().chars().take(10).collect()
}
