//! Resolution of computers, workspaces, snapshots, keys and clients by UUID, its beginning, instance id or name.

use std::borrow::Cow;
use std::fmt;

use uuid::Uuid;

use super::api::{Api, REQUEST_TIMEOUT};
use crate::failure::Outcome;
use hotdesk_domain::name::fold;
use hotdesk_wire::computer::snapshot::{Snapshot, SnapshotList};
use hotdesk_wire::computer::{Computer, ComputerList};
use hotdesk_wire::identity::api_key::{ApiKey, KeyList};
use hotdesk_wire::identity::client::{Client, ClientList};
use hotdesk_wire::identity::ssh_key::{SshKey, SshKeyList};
use hotdesk_wire::identity::workspace::{Workspace, WorkspaceList};

/// Shortest accepted beginning of an id, in characters, like git's. The name of a resource that is gone, for example `c1`,
/// must not match the id of another one.
const MIN_PREFIX: usize = 4;

/// A resource that a name or the beginning of an id may match.
pub struct Candidate<'a> {
    /// UUID.
    pub id: Cow<'a, str>,
    /// Instance id of a computer.
    pub instance: Option<&'a str>,
    /// Name for people.
    pub name: &'a str,
    /// Workspace name; distinguishes computers with equal names.
    pub workspace: Option<&'a str>,
}

/// A kind of resource, for error texts.
#[derive(Clone, Copy)]
pub struct ResourceKind {
    /// Singular noun.
    pub noun: &'static str,
    /// Command that lists the resources.
    pub list: &'static str,
}

/// Computers.
pub const COMPUTER: ResourceKind = ResourceKind { noun: "computer", list: "hotdesk computers list" };
const WORKSPACE: ResourceKind = ResourceKind { noun: "workspace", list: "hotdesk workspaces list" };
const SNAPSHOT: ResourceKind = ResourceKind { noun: "snapshot", list: "hotdesk snapshots list COMPUTER" };
const KEY: ResourceKind = ResourceKind { noun: "API key", list: "hotdesk api-keys list" };
const SSH_KEY: ResourceKind = ResourceKind { noun: "SSH key", list: "hotdesk ssh-keys list" };
const CLIENT: ResourceKind = ResourceKind { noun: "client", list: "hotdesk clients list" };

impl fmt::Display for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.workspace {
            Some(workspace) => write!(f, "{} in {workspace} ({})", self.name, self.id),
            None => write!(f, "{} ({})", self.name, self.id),
        }
    }
}

/// Returns the id of the computer that `wanted` names. A UUID is returned unchecked.
///
/// # Errors
/// When no computer or more than one matches, or the request for the list fails.
pub async fn computer(api: &Api, wanted: &str) -> Outcome<String> {
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    let list: ComputerList = api.get(&["computers"], &[], REQUEST_TIMEOUT).await?.decode()?;
    Ok(pick(COMPUTER, wanted, &list.computers, candidate_of_computer)?.id.clone())
}

/// Returns the id of the workspace that `wanted` names. A UUID is returned unchecked.
///
/// # Errors
/// Those of [`computer`].
pub async fn workspace(api: &Api, wanted: &str) -> Outcome<String> {
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    let list: WorkspaceList = api.get(&["workspaces"], &[], REQUEST_TIMEOUT).await?.decode()?;
    Ok(pick(WORKSPACE, wanted, &list.workspaces, candidate_of_workspace)?.id.clone())
}

/// Returns the id of the snapshot that `wanted` names among those of a computer. A UUID is returned unchecked.
///
/// # Errors
/// Those of [`computer`].
pub async fn snapshot(api: &Api, computer: &str, wanted: &str) -> Outcome<String> {
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    let list: SnapshotList =
        api.get(&["computers", computer, "snapshots"], &[], REQUEST_TIMEOUT).await?.decode()?;
    Ok(pick(SNAPSHOT, wanted, &list.snapshots, candidate_of_snapshot)?.id.clone())
}

/// Returns the id of the API key that `wanted` names. A UUID is returned unchecked.
///
/// # Errors
/// Those of [`computer`].
pub async fn key(api: &Api, wanted: &str) -> Outcome<String> {
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    let list: KeyList = api.get(&["keys"], &[], REQUEST_TIMEOUT).await?.decode()?;
    Ok(pick(KEY, wanted, &list.keys, candidate_of_key)?.id.clone())
}

/// Returns the id of the SSH key that `wanted` names. A UUID is returned unchecked.
///
/// # Errors
/// Those of [`computer`].
pub async fn ssh_key(api: &Api, wanted: &str) -> Outcome<String> {
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    let list: SshKeyList = api.get(&["keys", "ssh"], &[], REQUEST_TIMEOUT).await?.decode()?;
    Ok(pick(SSH_KEY, wanted, &list.keys, candidate_of_ssh_key)?.id.clone())
}

/// Returns the id of the client that `wanted` names: its external id, its id, or the beginning of its id. A UUID that is no
/// external id is returned unchecked.
///
/// # Errors
/// Those of [`computer`].
pub async fn client(api: &Api, wanted: &str) -> Outcome<String> {
    let list: ClientList = api.get(&["v1", "accounts"], &[], REQUEST_TIMEOUT).await?.decode()?;
    // External ids differ in case, unlike names.
    if let Some(exact) = list.accounts.iter().find(|it| it.external_id == wanted) {
        return Ok(exact.id.clone());
    }
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    Ok(pick(CLIENT, wanted, &list.accounts, candidate_of_client)?.id.clone())
}

fn candidate_of_key(key: &ApiKey) -> Candidate<'_> {
    Candidate { id: Cow::from(&key.id), instance: None, name: &key.name, workspace: None }
}

fn candidate_of_ssh_key(key: &SshKey) -> Candidate<'_> {
    Candidate { id: Cow::from(&key.id), instance: None, name: &key.name, workspace: None }
}

fn candidate_of_client(client: &Client) -> Candidate<'_> {
    Candidate { id: Cow::from(&client.id), instance: None, name: &client.external_id, workspace: None }
}

fn candidate_of_snapshot(snapshot: &Snapshot) -> Candidate<'_> {
    // A snapshot without a name is listed by its id.
    let name = snapshot.name.as_deref().unwrap_or(&snapshot.id);
    Candidate { id: Cow::from(&snapshot.id), instance: None, name, workspace: None }
}

fn candidate_of_computer(computer: &Computer) -> Candidate<'_> {
    Candidate {
        id: Cow::from(&computer.id),
        instance: Some(&computer.instance_id),
        name: &computer.name,
        workspace: Some(&computer.project_name),
    }
}

fn candidate_of_workspace(workspace: &Workspace) -> Candidate<'_> {
    Candidate { id: Cow::from(&workspace.id), instance: None, name: &workspace.name, workspace: None }
}

/// Finds the single match. Names and instance ids come first, then beginnings of ids. Names are compared without case,
/// like on the server.
///
/// # Errors
/// When nothing matches, or more than one does; the text lists them.
pub fn pick<'a, T>(
    kind: ResourceKind,
    wanted: &str,
    from: &'a [T],
    candidate: impl Fn(&'a T) -> Candidate<'a>,
) -> Result<&'a T, String> {
    let ResourceKind { noun, list } = kind;
    let (folded, prefix) = (fold(wanted), wanted.trim().to_ascii_lowercase());
    let is_named = |item: &&'a T| {
        let candidate = candidate(item);
        candidate.instance == Some(wanted) || fold(candidate.name) == folded
    };
    let begins = |item: &&'a T| prefix.len() >= MIN_PREFIX && candidate(item).id.starts_with(&prefix);
    let mut found: Vec<&T> = from.iter().filter(is_named).collect();
    if found.is_empty() {
        found = from.iter().filter(begins).collect();
    }
    match found.as_slice() {
        [] => Err(format!("there is no {noun} {wanted:?}: list them with `{list}`")),
        [one] => Ok(one),
        several => {
            let named: Vec<String> = several.iter().map(|item| candidate(item).to_string()).collect();
            Err(format!("{noun} {wanted:?} is ambiguous, it matches {}: use a whole id", named.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_resolves_to_one_computer_or_to_an_error() {
        type Row = (&'static str, &'static str, &'static str, &'static str);
        let rows: [Row; 5] = [
            ("1", "aaaaaaaa", "First Light", "demo"),
            ("2", "bbbbbbbb", "twin", "demo"),
            ("3", "cccccccc", "Twin", "other"),
            ("4", "dddddddd", "aaaaaaaa", "demo"),
            ("5", "eeeeeeee", "Ünï 二", "demo"),
        ];
        fn candidate(row: &Row) -> Candidate<'_> {
            Candidate { id: row.0.into(), instance: Some(row.1), name: row.2, workspace: Some(row.3) }
        }
        let id = |wanted: &str| pick(COMPUTER, wanted, &rows, candidate).map(|row| row.0);
        for (wanted, expected) in [
            ("first light", "1"),
            (" First Light ", "1"),
            ("bbbbbbbb", "2"),
            ("dddddddd", "4"),
            ("ÜNÏ 二", "5"),
        ] {
            assert_eq!(id(wanted), Ok(expected), "{wanted}");
        }
        for (wanted, parts) in [
            ("twin", ["twin in demo (2)", "Twin in other (3)"]),
            ("aaaaaaaa", ["First Light in demo (1)", "aaaaaaaa in demo (4)"]),
            ("first", ["there is no computer", "first"]),
            ("BBBBBBBB", ["there is no computer", "BBBBBBBB"]),
            ("", ["there is no computer", ""]),
        ] {
            let error = id(wanted).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{wanted}: {error}");
        }
    }

    #[test]
    fn the_beginning_of_an_id_resolves_unless_it_is_short_or_ambiguous() {
        const IDS: [&str; 4] = [
            "c1d2e3f4-0000-4000-8000-000000000001",
            "c1d2e3f4-0000-4000-8000-000000000002",
            "abcd0000-0000-4000-8000-000000000003",
            "00000000-0000-4000-8000-000000000004",
        ];
        // The last name looks like the beginning of an id.
        let rows = [(IDS[0], "one"), (IDS[1], "two"), (IDS[2], "three"), (IDS[3], "abcd0")];
        fn candidate<'a>(row: &'a (&'static str, &'static str)) -> Candidate<'a> {
            Candidate { id: row.0.into(), instance: None, name: row.1, workspace: None }
        }
        let id = |wanted: &str| pick(COMPUTER, wanted, &rows, candidate).map(|row| row.0);
        for (wanted, expected) in [
            ("abcd", IDS[2]),
            ("ABCD0000", IDS[2]),
            (" abcd0000-0000 ", IDS[2]),
            ("abcd0", IDS[3]),
            ("0000", IDS[3]),
            ("c1d2e3f4-0000-4000-8000-000000000002", IDS[1]),
        ] {
            assert_eq!(id(wanted), Ok(expected), "{wanted}");
        }
        for (wanted, parts) in [
            ("c1d2e3f4", ["is ambiguous", IDS[0], "two", IDS[1]]),
            ("abc", ["there is no computer", "abc", "hotdesk computers list", ""]),
            ("c1", ["there is no computer", "c1", "", ""]),
            ("bcd0", ["there is no computer", "bcd0", "", ""]),
        ] {
            let error = id(wanted).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{wanted}: {error}");
        }
    }
}
