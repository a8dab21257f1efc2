//! Which computer, workspace or snapshot is meant? Its UUID, its instance id or its name.

use std::fmt;

use uuid::Uuid;

use super::api::{Api, QUICK};
use crate::failure::Outcome;
use hotdesk_domain::name::fold;
use hotdesk_wire::computer::{Computer, ComputerList};
use hotdesk_wire::snapshot::{Snapshot, SnapshotList};
use hotdesk_wire::workspace::{Workspace, WorkspaceList};

/// Something that can be meant.
struct Candidate<'a> {
    id: &'a str,
    instance: Option<&'a str>,
    name: &'a str,
    /// What tells two of one name apart.
    place: Option<&'a str>,
}

impl fmt::Display for Candidate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "{} in {place} ({})", self.name, self.id),
            None => write!(f, "{} ({})", self.name, self.id),
        }
    }
}

/// The id of the computer that is meant. A UUID is taken as it is; the server says whether it exists.
///
/// # Errors
/// When none or several are meant, or the list cannot be had.
pub async fn computer(api: &Api, wanted: &str) -> Outcome<String> {
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    let list: ComputerList = api.get(&["computers"], &[], QUICK).await?.decode()?;
    Ok(pick("computer", wanted, &list.computers, candidate_of_computer)?.id.clone())
}

/// The id of the workspace that is meant.
///
/// # Errors
/// As [`computer`].
pub async fn workspace(api: &Api, wanted: &str) -> Outcome<String> {
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    let list: WorkspaceList = api.get(&["workspaces"], &[], QUICK).await?.decode()?;
    Ok(pick("workspace", wanted, &list.workspaces, candidate_of_workspace)?.id.clone())
}

/// The id of the computer's snapshot that is meant.
///
/// # Errors
/// As [`computer`].
pub async fn snapshot(api: &Api, computer: &str, wanted: &str) -> Outcome<String> {
    if Uuid::try_parse(wanted).is_ok() {
        return Ok(wanted.to_owned());
    }
    let list: SnapshotList = api.get(&["computers", computer, "snapshots"], &[], QUICK).await?.decode()?;
    Ok(pick("snapshot", wanted, &list.snapshots, candidate_of_snapshot)?.id.clone())
}

fn candidate_of_snapshot(snapshot: &Snapshot) -> Candidate<'_> {
    // One without a name is told by its id alone.
    let name = snapshot.name.as_deref().unwrap_or(&snapshot.id);
    Candidate { id: &snapshot.id, instance: None, name, place: None }
}

fn candidate_of_computer(computer: &Computer) -> Candidate<'_> {
    Candidate {
        id: &computer.id,
        instance: Some(&computer.instance_id),
        name: &computer.name,
        place: Some(&computer.project_name),
    }
}

fn candidate_of_workspace(workspace: &Workspace) -> Candidate<'_> {
    Candidate { id: &workspace.id, instance: None, name: &workspace.name, place: None }
}

/// Finds the one that is meant: names are compared as the server compares them, whatever the case.
fn pick<'a, T>(
    kind: &str,
    wanted: &str,
    from: &'a [T],
    candidate: impl Fn(&'a T) -> Candidate<'a>,
) -> Result<&'a T, String> {
    let folded = fold(wanted);
    let meant = |item: &&'a T| {
        let candidate = candidate(item);
        candidate.instance == Some(wanted) || fold(candidate.name) == folded
    };
    let found: Vec<&T> = from.iter().filter(meant).collect();
    match found.as_slice() {
        [] => Err(format!("there is no {kind} {wanted:?}")),
        [one] => Ok(one),
        several => {
            let named: Vec<String> = several.iter().map(|item| candidate(item).to_string()).collect();
            Err(format!("{wanted:?} may be any of {}: use the id", named.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_one_or_to_a_question() {
        type Row = (&'static str, &'static str, &'static str, &'static str);
        let rows: [Row; 5] = [
            ("1", "aaaaaaaa", "First Light", "demo"),
            ("2", "bbbbbbbb", "twin", "demo"),
            ("3", "cccccccc", "Twin", "other"),
            ("4", "dddddddd", "aaaaaaaa", "demo"),
            ("5", "eeeeeeee", "Ünï 二", "demo"),
        ];
        fn see(row: &Row) -> Candidate<'_> {
            Candidate { id: row.0, instance: Some(row.1), name: row.2, place: Some(row.3) }
        }
        let id = |wanted: &str| pick("computer", wanted, &rows, see).map(|row| row.0);
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
