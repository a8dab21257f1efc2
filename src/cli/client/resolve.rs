//! Resolution of computers, workspaces and snapshots by UUID, instance id or name.

use std::fmt;

use uuid::Uuid;

use super::api::{Api, REQUEST_TIMEOUT};
use crate::failure::Outcome;
use hotdesk_domain::name::fold;
use hotdesk_wire::computer::snapshot::{Snapshot, SnapshotList};
use hotdesk_wire::computer::{Computer, ComputerList};
use hotdesk_wire::identity::workspace::{Workspace, WorkspaceList};

/// A resource that a name may match.
struct Candidate<'a> {
    id: &'a str,
    instance: Option<&'a str>,
    name: &'a str,
    /// Workspace name; distinguishes computers with equal names.
    workspace: Option<&'a str>,
}

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
    Ok(pick("computer", wanted, &list.computers, candidate_of_computer)?.id.clone())
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
    Ok(pick("workspace", wanted, &list.workspaces, candidate_of_workspace)?.id.clone())
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
    Ok(pick("snapshot", wanted, &list.snapshots, candidate_of_snapshot)?.id.clone())
}

fn candidate_of_snapshot(snapshot: &Snapshot) -> Candidate<'_> {
    // A snapshot without a name is listed by its id.
    let name = snapshot.name.as_deref().unwrap_or(&snapshot.id);
    Candidate { id: &snapshot.id, instance: None, name, workspace: None }
}

fn candidate_of_computer(computer: &Computer) -> Candidate<'_> {
    Candidate {
        id: &computer.id,
        instance: Some(&computer.instance_id),
        name: &computer.name,
        workspace: Some(&computer.project_name),
    }
}

fn candidate_of_workspace(workspace: &Workspace) -> Candidate<'_> {
    Candidate { id: &workspace.id, instance: None, name: &workspace.name, workspace: None }
}

/// Finds the single match. Names are compared without case, like on the server.
fn pick<'a, T>(
    kind: &str,
    wanted: &str,
    from: &'a [T],
    candidate: impl Fn(&'a T) -> Candidate<'a>,
) -> Result<&'a T, String> {
    let folded = fold(wanted);
    let matches = |item: &&'a T| {
        let candidate = candidate(item);
        candidate.instance == Some(wanted) || fold(candidate.name) == folded
    };
    let found: Vec<&T> = from.iter().filter(matches).collect();
    match found.as_slice() {
        [] => Err(format!("there is no {kind} {wanted:?}: list them with `hotdesk {kind}s list`")),
        [one] => Ok(one),
        several => {
            let named: Vec<String> = several.iter().map(|item| candidate(item).to_string()).collect();
            Err(format!("{kind} {wanted:?} is ambiguous, it matches {}: use the id", named.join(", ")))
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
            Candidate { id: row.0, instance: Some(row.1), name: row.2, workspace: Some(row.3) }
        }
        let id = |wanted: &str| pick("computer", wanted, &rows, candidate).map(|row| row.0);
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
}
