//! `hotdesk doctor --repair`: host resources without an owner, and unfinished changes of computers.
//!
//! The command lists both. It removes resources only with `--yes`; the controller finishes the changes at its next start.

use std::process::ExitCode;

use serde_json::json;

use crate::failure::Outcome;
use crate::operator::serve;
use crate::output;
use hotdesk_base::ids::ComputerId;
use hotdesk_controller::config::Config;
use hotdesk_controller::data_dir::lock;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_engine::{Leftover, Observation};
use hotdesk_store::database::Access;
use hotdesk_store::fleet::computers::Computer;

/// Why a repair needs a store.
const WITHOUT_STORE: &str =
    "without a store no machine has a known owner; `hotdesk purge` removes all of them";

/// A resource without an owner, and the outcome of its removal.
struct LeftoverReport {
    leftover: Leftover,
    /// `None` without `--yes`.
    outcome: Option<Result<(), String>>,
}

/// Machines that were booted for computers that nobody has created yet.
struct PreparedMachines {
    boot_snapshots: usize,
    pool: usize,
}

/// What the store and the host have.
struct Inspection {
    reports: Vec<LeftoverReport>,
    unsettled: Vec<UnsettledComputer>,
    prepared: PreparedMachines,
}

/// A computer whose state the next start of the controller will change.
struct UnsettledComputer {
    id: ComputerId,
    name: String,
    /// Description of the state and of the change.
    what: String,
}

/// Lists the resources and, with `yes`, removes them. The exit code is 1 while any remain.
///
/// # Errors
/// When a controller uses the data folder, the folder has no store, or the host cannot be inspected.
pub fn run(options: &serve::Options, yes: bool, json: bool) -> Outcome {
    let config = options.load()?;
    if config.store.is_embedded() && !config.store_file().is_file() {
        return Err(format!("there is no {}: {WITHOUT_STORE}", config.store_file().display()).into());
    }
    let _locks = lock::acquire_all(&config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    let inspection = runtime.block_on(inspect(&config, yes))?;
    let reports = &inspection.reports;
    let remaining = reports.iter().filter(|it| it.outcome.as_ref().is_none_or(Result::is_err)).count();
    if json {
        output::line(&as_json(&inspection).to_string())?;
    } else {
        print_reports(&inspection)?;
        output::line(&verdict(reports.len(), remaining, yes))?;
    }
    Ok(if remaining == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn inspect(config: &Config, yes: bool) -> Outcome<Inspection> {
    let store = config.open_store(Access::Exclusive).await?;
    // PostgreSQL has every database that somebody made, also one that a wrong URL names.
    if !config.store.is_embedded() && store.is_new().await? {
        return Err(format!("the database {} holds no service: {WITHOUT_STORE}", config.database()?).into());
    }
    let rows = store.all_computers().await;
    let owned = store.owned_machines().await;
    let (boot_snapshots, pool) = (store.boot_snapshots().await, store.pooled_machines().await);
    store.close().await;
    let (rows, owned, boot_snapshots, pool) = (rows?, owned?, boot_snapshots?, pool?);
    let prepared = PreparedMachines { boot_snapshots: boot_snapshots.len(), pool: pool.len() };
    let leftovers = hotdesk_engine::leftovers(config.all_engine_settings()?)?;
    let mut unsettled = Vec::new();
    for row in &rows {
        let what = match leftovers.engine().observe(row.id).await {
            Ok(observed) => next_change(row, &observed),
            // The files of an encrypted computer are unreadable until the controller starts.
            Err(error) => Some(format!("it cannot be examined: {error:#}")),
        };
        unsettled.extend(what.map(|what| UnsettledComputer { id: row.id, name: row.name.clone(), what }));
    }
    let mut reports = Vec::new();
    for leftover in leftovers.find(&owned)? {
        let outcome = if yes {
            Some(leftovers.remove(&leftover).await.map_err(|error| format!("{error:#}")))
        } else {
            None
        };
        reports.push(LeftoverReport { leftover, outcome });
    }
    Ok(Inspection { reports, unsettled, prepared })
}

/// Describes what the controller does at its next start with a computer whose machine differs from its row; `None` when
/// they agree.
fn next_change(row: &Computer, observed: &Observation) -> Option<String> {
    let status = row.status.name();
    let next = match (row.status, observed) {
        (Status::Creating | Status::Deleting, _) => "removes it",
        (Status::Starting | Status::Restarting, _) => "starts it",
        (Status::Stopping, _) => "stops it",
        (Status::Suspending, _) => "checks whether its memory is saved",
        (Status::Running, Observation::Stopped) => "marks it as stopped",
        (Status::Running | Status::Suspended, Observation::Absent) => {
            "marks it as failed: its machine is gone; delete it through the API"
        }
        (Status::Running, Observation::Suspended { .. }) => "marks it as suspended",
        (Status::Suspended, Observation::Stopped) => "marks it as stopped: its saved memory is gone",
        (Status::Suspended, Observation::Running { .. }) => "checks which boot of it is running",
        _ if row.wanted.is_some() => "finishes its resize",
        _ => return None,
    };
    Some(format!("it is {status}: at its next start the controller {next}"))
}

fn print_reports(Inspection { reports, unsettled, prepared }: &Inspection) -> Outcome<()> {
    if !reports.is_empty() {
        let row = |it: &LeftoverReport| {
            let repair = match &it.outcome {
                None => it.leftover.remedy.to_owned(),
                Some(Ok(())) => format!("done: {}", it.leftover.remedy),
                Some(Err(error)) => format!("FAILED: {error}"),
            };
            vec![
                it.leftover.kind.to_owned(),
                it.leftover.location.clone(),
                it.leftover.reason.to_owned(),
                repair,
            ]
        };
        output::table(&["WHAT", "WHERE", "WHY", "REPAIR"], reports.iter().map(row).collect())?;
    }
    for it in unsettled {
        output::line(&format!("unchanged: computer {} ({}): {}", it.name, it.id, it.what))?;
    }
    let PreparedMachines { boot_snapshots, pool } = prepared;
    output::line(&format!(
        "kept for new computers: boot snapshots {boot_snapshots}, machines of the pool {pool}"
    ))?;
    Ok(())
}

fn verdict(all: usize, remaining: usize, yes: bool) -> String {
    match (all, remaining) {
        (0, _) => "Every hotdesk resource on this host has an owner.".to_owned(),
        (all, 0) => format!("{all} of {all} were removed."),
        (all, remaining) if yes => format!("{remaining} of {all} could not be removed."),
        (all, _) => format!(
            "{all} would be removed; nothing was changed. To remove them: hotdesk doctor --repair --yes"
        ),
    }
}

fn as_json(Inspection { reports, unsettled, prepared }: &Inspection) -> serde_json::Value {
    let leftovers: Vec<_> = reports
        .iter()
        .map(|LeftoverReport { leftover: it, outcome }| {
            let mut entry =
                json!({"what": it.kind, "place": it.location, "why": it.reason, "remedy": it.remedy, "done": false});
            match outcome {
                None => {}
                Some(Ok(())) => entry["done"] = json!(true),
                Some(Err(error)) => entry["error"] = json!(error),
            }
            entry
        })
        .collect();
    let computers: Vec<_> = unsettled
        .iter()
        .map(|it| json!({"id": it.id.to_string(), "name": it.name, "what": it.what}))
        .collect();
    let PreparedMachines { boot_snapshots, pool } = prepared;
    json!({
        "leftovers": leftovers, "computers": computers, "prepared": {"boot_snapshots": boot_snapshots, "pool": pool}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_says_whether_anything_was_changed() {
        for (all, remaining, yes, expected) in [
            (0, 0, false, "Every hotdesk resource"),
            (0, 0, true, "Every hotdesk resource"),
            (3, 3, false, "3 would be removed; nothing was changed"),
            (3, 0, true, "3 of 3 were removed"),
            (3, 1, true, "1 of 3 could not be removed"),
        ] {
            assert!(verdict(all, remaining, yes).starts_with(expected), "{all} {remaining} {yes}");
        }
    }
}
