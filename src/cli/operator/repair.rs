//! `hotdesk doctor --repair`: what is left on this host that no computer owns, and what stands half done? It is told, and
//! taken away only when asked for.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::json;

use super::failure::Outcome;
use super::{output, serve};
use hotdesk_base::ids::ComputerId;
use hotdesk_controller::config::Config;
use hotdesk_controller::lock;
use hotdesk_domain::lifecycle::Status;
use hotdesk_engine::container::ContainerEngine;
use hotdesk_engine::qemu::QemuEngine;
use hotdesk_engine::{Leftover, Observation};
use hotdesk_store::Store;
use hotdesk_store::computers::Computer;

/// What was found, and what became of it.
struct Found {
    leftover: Leftover,
    /// `None` where nothing was tried.
    outcome: Option<Result<(), String>>,
}

/// A computer that is not at rest, and what comes of it without anybody's help.
struct Pending {
    id: ComputerId,
    name: String,
    what: String,
}

/// Lists what is left, and with `yes` takes it away. Ends with 1 while something is left.
///
/// # Errors
/// When a controller uses the data folder, or there is no store to tell what is owned.
pub fn run(options: &serve::Options, yes: bool, json: bool) -> Outcome {
    let config = options.load()?;
    let store = config.data_dir.join("hotdesk.db");
    if !store.is_file() {
        let told = "nothing tells which machines are a computer's (hotdesk purge removes them all)";
        return Err(format!("there is no {}: {told}", store.display()).into());
    }
    let _lock = lock::acquire(&config.data_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("tokio: {error}"))?;
    let (found, pending) = runtime.block_on(look(&config, yes))?;
    let left = found.iter().filter(|it| it.outcome.as_ref().is_none_or(Result::is_err)).count();
    if json {
        output::line(&as_json(&found, &pending).to_string())?;
    } else {
        tell(&found, &pending)?;
        output::line(&verdict(found.len(), left, yes))?;
    }
    Ok(if left == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn look(config: &Config, yes: bool) -> Result<(Vec<Found>, Vec<Pending>), String> {
    let store = Store::open(&config.data_dir.join("hotdesk.db")).await.map_err(|error| error.to_string())?;
    let rows = store.all_computers().await.map_err(|error| error.to_string());
    store.close().await;
    let rows = rows?;
    let owned: BTreeSet<ComputerId> = rows.iter().map(|row| row.id).collect();
    let leftovers = serve::with_engine(
        config,
        |it| ContainerEngine::open_to_look(it).map(ContainerEngine::leftovers),
        |it| QemuEngine::open_to_look(it).map(QemuEngine::leftovers),
    )?;
    let mut pending = Vec::new();
    for row in &rows {
        let seen = leftovers.engine().observe(row.id).await.map_err(|error| error.to_string())?;
        let what = becomes(row, &seen);
        pending.extend(what.map(|what| Pending { id: row.id, name: row.name.clone(), what }));
    }
    let mut found = Vec::new();
    for leftover in leftovers.find(&owned).map_err(|error| error.to_string())? {
        let outcome = if yes {
            Some(leftovers.take_away(&leftover).await.map_err(|error| error.to_string()))
        } else {
            None
        };
        found.push(Found { leftover, outcome });
    }
    Ok((found, pending))
}

/// What the next start of the controller makes of a computer that is not as its row says; `None` for one that is.
fn becomes(row: &Computer, seen: &Observation) -> Option<String> {
    let status = row.status.name();
    let next = match (row.status, seen) {
        (Status::Creating | Status::Deleting, _) => "removes it",
        (Status::Starting | Status::Restarting, _) => "starts it",
        (Status::Stopping, _) => "stops it",
        (Status::Suspending, _) => "finds out whether its memory is saved",
        (Status::Running, Observation::Stopped) => "says that it is stopped",
        (Status::Running | Status::Suspended, Observation::Absent) => {
            "says error: its machine is gone, delete it through the API"
        }
        (Status::Running, Observation::Suspended { .. }) => "says that it is suspended",
        (Status::Suspended, Observation::Stopped) => "says that it is stopped: its memory is gone",
        (Status::Suspended, Observation::Running { .. }) => "finds out which boot of it runs",
        _ if row.wanted.is_some() => "finishes its resize",
        _ => return None,
    };
    Some(format!("it is {status}: the controller's next start {next}"))
}

fn tell(found: &[Found], pending: &[Pending]) -> Outcome<()> {
    if !found.is_empty() {
        let row = |it: &Found| {
            let repair = match &it.outcome {
                None => it.leftover.remedy.to_owned(),
                Some(Ok(())) => format!("done: {}", it.leftover.remedy),
                Some(Err(error)) => format!("FAILED: {error}"),
            };
            vec![it.leftover.what.to_owned(), it.leftover.place.clone(), it.leftover.why.to_owned(), repair]
        };
        output::table(&["WHAT", "WHERE", "WHY IT IS NOBODY'S", "REPAIR"], found.iter().map(row).collect())?;
    }
    for it in pending {
        output::line(&format!("left alone: computer {} ({}): {}", it.name, it.id, it.what))?;
    }
    Ok(())
}

fn verdict(all: usize, left: usize, yes: bool) -> String {
    match (all, left) {
        (0, _) => "Nothing is left on this host that no computer owns.".to_owned(),
        (all, 0) => format!("{all} of {all} were taken away."),
        (all, left) if yes => format!("{left} of {all} are still there."),
        (all, _) => format!("{all} would be taken away; nothing was changed. To do it: --repair --yes"),
    }
}

fn as_json(found: &[Found], pending: &[Pending]) -> serde_json::Value {
    let leftovers: Vec<_> = found
        .iter()
        .map(|Found { leftover: it, outcome }| {
            let mut told =
                json!({"what": it.what, "place": it.place, "why": it.why, "remedy": it.remedy, "done": false});
            match outcome {
                None => {}
                Some(Ok(())) => told["done"] = json!(true),
                Some(Err(error)) => told["error"] = json!(error),
            }
            told
        })
        .collect();
    let computers: Vec<_> =
        pending.iter().map(|it| json!({"id": it.id.to_string(), "name": it.name, "what": it.what})).collect();
    json!({"leftovers": leftovers, "computers": computers})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_whether_anything_was_changed() {
        for (all, left, yes, told) in [
            (0, 0, false, "Nothing is left"),
            (0, 0, true, "Nothing is left"),
            (3, 3, false, "3 would be taken away; nothing was changed"),
            (3, 0, true, "3 of 3 were taken away"),
            (3, 1, true, "1 of 3 are still there"),
        ] {
            assert!(verdict(all, left, yes).starts_with(told), "{all} {left} {yes}");
        }
    }
}
