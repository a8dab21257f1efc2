//! List of a screen's elements: programs, windows, walk, selection, records.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use crate::display::{Screen, ToplevelWindows};
use crate::elements::bus::details::{self, Details, MAX_NAME};
use crate::elements::bus::object::{Area, Node, Object, Reference, cut};
use crate::elements::bus::{ACCESSIBLE, Bus, BusFault};
use crate::elements::choose::{self, Candidate};
use crate::elements::ids::ElementKey;
use crate::elements::record::{Ancestry, process_name, record};
use crate::elements::request::{ListRequest, MAX_NODES};
use crate::elements::walk::tree::{ProgramTree, Tree as _, run_concurrently};
use crate::elements::walk::{StopReason, WalkLimits, walk};
use crate::elements::windows::{is_concealed, is_on_screen, matching, rank};
use crate::elements::{Elements, TURN_TIMEOUT, call_timeout};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::element::{Element, ElementList, SkippedApp};

/// Candidates per listed element: many nodes only contain others.
const CANDIDATES_PER_ELEMENT: usize = 4;
/// Candidates for a short list, so that the best can be chosen.
const MIN_CANDIDATES: usize = 2000;
/// Most candidates. About 500 bytes each.
const MAX_CANDIDATES: usize = CANDIDATES_PER_ELEMENT * MAX_NODES as usize;
/// Most programs that are asked; a user runs a dozen.
const MAX_PROGRAMS: usize = 64;
/// Most windows of one program.
const MAX_WINDOWS: usize = 64;

/// A program and its accessible windows.
struct ProgramWindows<'a> {
    program: ProgramTree<'a>,
    name: String,
    pid: u32,
    windows: Vec<Arc<Node>>,
}

/// An accessible window and its X window.
struct Window {
    /// Index of its program.
    of: usize,
    node: Arc<Node>,
    area: Option<Area>,
    /// Index of its X window.
    place: Option<usize>,
}

/// Nodes of all walked windows.
#[derive(Default)]
struct CollectedNodes {
    candidates: Vec<Candidate>,
    /// Number of objects that were read.
    seen: usize,
    /// For each window: index of its program, title.
    windows: Vec<(usize, String)>,
    stop: Option<StopReason>,
    skipped: Vec<SkippedApp>,
}

impl Elements {
    /// Lists the elements of a screen. `took_ms` is in milliseconds; coordinates are in pixels of the screen.
    ///
    /// # Errors
    /// `NotFound` for an unknown screen; `Unavailable` without an accessibility bus or when too many lists
    /// run.
    pub async fn list(&self, request: ListRequest) -> Result<ElementList> {
        let screen = self.shared.displays.screen(request.screen.as_deref())?;
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.shared.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(Error::unavailable("Too many lists of elements at once").retry_after(1));
        };
        let began = Instant::now();
        let until = began + request.timeout;
        let bus = self.bus().await?;
        let toplevels = screen.toplevel_windows().await?;
        let (opened, skipped) = self.open(&bus, &toplevels, &request, until).await?;
        let mut collected = CollectedNodes { skipped, ..CollectedNodes::default() };
        self.gather(&screen, &toplevels, &opened, &request, until, &mut collected).await;
        let (chosen, short) = choose::choose(&collected.candidates, &request.filter);
        if short {
            collected.stop = collected.stop.max(Some(StopReason::Nodes));
        }
        let timeout = call_timeout(request.timeout);
        let details = self.fetch_details(&bus, &collected.candidates, &chosen, timeout, until).await;
        if details.len() < chosen.len() {
            collected.stop = collected.stop.max(Some(StopReason::Time));
        }
        let elements = self.records(&screen.id, &opened, &collected, &chosen, details);
        let reason =
            collected.stop.map(StopReason::word).or((!collected.skipped.is_empty()).then_some("skipped"));
        Ok(ElementList {
            elements,
            truncated: reason.is_some(),
            reason: reason.map(str::to_owned),
            skipped: collected.skipped,
            nodes_seen: u32::try_from(collected.seen).unwrap_or(u32::MAX),
            took_ms: began.elapsed().as_millis() as u64,
            screen: screen.id.clone(),
        })
    }

    /// Opens all programs that have a window on this screen, concurrently.
    async fn open<'a>(
        &self,
        bus: &'a Bus,
        toplevels: &ToplevelWindows,
        request: &ListRequest,
        until: Instant,
    ) -> Result<(Vec<ProgramWindows<'a>>, Vec<SkippedApp>)> {
        let silent = |fault: BusFault| {
            bus.retire();
            let error = Error::unavailable("The accessibility bus does not answer");
            error.retry_after(1).context(fault.reason())
        };
        let programs = bus.programs().await.map_err(silent)?;
        let knows_processes = bus.knows_processes().await.map_err(silent)?;
        let asked = programs.into_iter().take(MAX_PROGRAMS).map(async |root| {
            let pid = if knows_processes {
                bus.pid(&root.name).await
            } else {
                bus.reported_pid(&root, self.first_timeout(&root.name, request.timeout)).await
            };
            self.record_answer(&root.name, !matches!(pid, Err(BusFault::Silent)));
            // A program that has ended meanwhile is left out.
            let pid = pid.ok().filter(|pid| is_on_screen(toplevels, *pid))?;
            let opened = self.open_one(bus, &root, pid, request, until).await;
            self.record_answer(&root.name, !matches!(opened, Err(BusFault::Silent)));
            match opened {
                Ok(opened) => Some(Ok(opened)),
                Err(BusFault::Gone | BusFault::Unknown) => None,
                Err(fault) => Some(Err(skipped(pid, &fault))),
            }
        });
        let answers: Vec<_> = run_concurrently(asked).collect().await;
        let (mut opened, mut skipped) = (Vec::new(), Vec::new());
        for answer in answers.into_iter().flatten() {
            match answer {
                Ok(program) => opened.push(program),
                Err(left_out) => skipped.push(left_out),
            }
        }
        Ok((opened, skipped))
    }

    async fn open_one<'a>(
        &self,
        bus: &'a Bus,
        root: &Object,
        pid: u32,
        request: &ListRequest,
        until: Instant,
    ) -> Result<ProgramWindows<'a>, BusFault> {
        let left = until.saturating_duration_since(Instant::now());
        let first = self.first_timeout(&root.name, request.timeout).min(left);
        let windows: Vec<Reference> = bus.call(root, ACCESSIBLE, "GetChildren", &(), first).await?;
        let windows: Vec<Object> = windows.into_iter().filter_map(Object::of).take(MAX_WINDOWS).collect();
        // A program without windows needs no bulk answer.
        let bulk = if windows.is_empty() { Duration::ZERO } else { left / 2 };
        let left = until.saturating_duration_since(Instant::now());
        let timeout = call_timeout(request.timeout).min(left);
        let program = ProgramTree::read(bus, root, timeout, bulk, request.filter.hidden).await;
        let name = program.node(root).await.map(|node| node.name.clone()).unwrap_or_default();
        let asked = windows.iter().map(|window| program.node(window));
        let nodes: Vec<_> = run_concurrently(asked).collect().await;
        let windows = nodes.into_iter().flatten().collect();
        Ok(ProgramWindows { name: cut(&name, MAX_NAME), pid, windows, program })
    }

    /// Walks the windows in their order until a limit is reached.
    async fn gather(
        &self,
        screen: &Screen,
        toplevels: &ToplevelWindows,
        opened: &[ProgramWindows<'_>],
        request: &ListRequest,
        until: Instant,
        collected: &mut CollectedNodes,
    ) {
        let size = screen.size();
        let whole = Area { x: 0, y: 0, width: size.width.into(), height: size.height.into() };
        // A match may be in any node.
        let searched = request.filter.role.is_some() || request.filter.name.is_some();
        let limit = if searched {
            MAX_CANDIDATES
        } else {
            (request.filter.most * CANDIDATES_PER_ELEMENT).max(MIN_CANDIDATES)
        };
        for window in ordered(opened, toplevels).await {
            let ProgramWindows { program, name, pid, .. } = &opened[window.of];
            let title = &window.node.name;
            let wanted = request.window.as_deref().is_none_or(|part| title.to_lowercase().contains(part));
            let faulty = collected.skipped.iter().any(|app| app.pid == *pid);
            let concealed = is_concealed(toplevels, *pid, window.place);
            if !wanted || faulty || !(request.filter.hidden || (window.node.is_showing() && !concealed)) {
                continue;
            }
            let nodes = limit - collected.candidates.len();
            let limits = WalkLimits { nodes, depth: request.depth, until, hidden: request.filter.hidden };
            let number = collected.windows.len();
            collected.windows.push((window.of, cut(title, MAX_NAME)));
            let walked = walk(program, Arc::clone(&window.node), limits).await;
            collected.stop = collected.stop.max(walked.stop);
            if let Some(fault) = walked.fault {
                let bus_name = &window.node.object.name;
                self.record_answer(bus_name, !matches!(fault, BusFault::Silent));
                collected.skipped.push(SkippedApp { app: name.clone(), pid: *pid, reason: fault.reason() });
            }
            collected.seen += walked.seen;
            let from = collected.candidates.len();
            collected.candidates.extend(walked.found.into_iter().map(|mut found| {
                found.parent = found.parent.map(|parent| from + parent);
                let visible = choose::is_visible(&found, whole, window.area, concealed);
                Candidate { found, visible, window: number }
            }));
        }
    }

    /// Fetches the details of the chosen candidates, as many as the time allows.
    async fn fetch_details(
        &self,
        bus: &Bus,
        candidates: &[Candidate],
        chosen: &[usize],
        timeout: Duration,
        until: Instant,
    ) -> Vec<Details> {
        let until = until.max(Instant::now() + crate::elements::SHORT_TIMEOUT);
        let asked = chosen.iter().map(|at| details::details(bus, &candidates[*at].found.node, timeout));
        let mut answers = run_concurrently(asked);
        let mut details = Vec::new();
        // When a program stops answering, its elements have no details; the list is still returned.
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, answers.next()).await {
            details.push(answer.unwrap_or_default());
        }
        details
    }

    fn records(
        &self,
        screen: &str,
        opened: &[ProgramWindows<'_>],
        collected: &CollectedNodes,
        chosen: &[usize],
        details: Vec<Details>,
    ) -> Vec<Element> {
        let mut table = self.table();
        table.next_list();
        let of = |candidate: &Candidate| &opened[collected.windows[candidate.window].0];
        let ids: std::collections::HashMap<usize, String> = chosen
            .iter()
            .map(|at| {
                let candidate = &collected.candidates[*at];
                let object = candidate.found.node.object.clone();
                let details = ElementKey { object, pid: of(candidate).pid, screen: screen.to_owned() };
                (*at, table.id(details))
            })
            .collect();
        let details = details.into_iter().chain(std::iter::repeat_with(Details::default));
        let both = chosen.iter().zip(details);
        both.map(|(at, details)| {
            let candidate = &collected.candidates[*at];
            let program = of(candidate);
            let parent = choose::parent(&collected.candidates, *at, |other| ids.contains_key(&other));
            let around = Ancestry {
                parent: parent.map(|parent| ids[&parent].clone()),
                window: collected.windows[candidate.window].1.clone(),
                app: program.name.clone(),
                pid: program.pid,
            };
            record(ids[at].clone(), &candidate.found.node, candidate.found.area, details, around)
        })
        .collect()
    }
}

/// All windows, in the order of the walk.
async fn ordered(opened: &[ProgramWindows<'_>], toplevels: &ToplevelWindows) -> Vec<Window> {
    let mut all = Vec::new();
    for (of, program) in opened.iter().enumerate() {
        all.extend(program.windows.iter().map(|node| match_window(of, program, node, toplevels)));
    }
    let mut windows: Vec<Window> = run_concurrently(all).collect().await;
    windows.sort_by_key(|window| rank(toplevels, opened[window.of].pid, window.place));
    windows
}

async fn match_window(
    of: usize,
    program: &ProgramWindows<'_>,
    node: &Arc<Node>,
    toplevels: &ToplevelWindows,
) -> Window {
    // A window without an area is matched by its title only.
    let area = program.program.area(node).await.ok().flatten();
    let place = matching(toplevels, program.pid, node, area);
    Window { of, node: Arc::clone(node), area, place }
}

fn skipped(pid: u32, fault: &BusFault) -> SkippedApp {
    SkippedApp { app: process_name(pid), pid, reason: fault.reason() }
}
