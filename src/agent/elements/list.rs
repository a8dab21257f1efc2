//! What is on a screen? One list: programs, windows, walk, choice, records.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::bus::{ACCESSIBLE, Bus, Fault};
use super::choose::{self, Candidate};
use super::details::{self, Details, MOST_NAME};
use super::ids::Known;
use super::object::{Area, Node, Object, Reference, cut};
use super::record::{Around, process_name, record};
use super::request::{MAX_NODES, Request};
use super::tree::{Program, Tree as _, together};
use super::walk::{Bounds, Stop, walk};
use super::windows::{is_away, is_here, matching, rank};
use super::{Elements, TURN_TIMEOUT, call_patience};
use crate::display::{Screen, Tops};
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::element::{Element, ElementList, SkippedApp};

/// Nodes kept per element listed: many nodes only hold others.
const LOOK_FACTOR: usize = 4;
/// Nodes that are kept however few are listed, so that the best can be chosen.
const LEAST_LOOK: usize = 2000;
/// Nodes that are kept at most while the best are chosen. About 500 bytes each.
const MOST_LOOK: usize = LOOK_FACTOR * MAX_NODES as usize;
/// Programs that are asked; a person runs a dozen.
const MOST_PROGRAMS: usize = 64;
/// Windows of one program that are looked at.
const MOST_WINDOWS: usize = 64;

/// A program whose windows are known.
struct Opened<'a> {
    program: Program<'a>,
    name: String,
    pid: u32,
    windows: Vec<Arc<Node>>,
}

/// An accessible window and what X knows of it.
struct Window {
    /// Place of its program.
    of: usize,
    node: Arc<Node>,
    area: Option<Area>,
    /// Place among the X windows.
    place: Option<usize>,
}

/// What a list knows when it chooses.
#[derive(Default)]
struct Gathered {
    candidates: Vec<Candidate>,
    /// How many objects were looked at.
    seen: usize,
    /// By window: program's place, title.
    windows: Vec<(usize, String)>,
    stop: Option<Stop>,
    skipped: Vec<SkippedApp>,
}

impl Elements {
    /// Lists what is on a screen.
    ///
    /// # Errors
    /// `NotFound` for an unknown screen; `Unavailable` where there is no accessibility bus or too many ask at once.
    pub async fn list(&self, request: Request) -> Result<ElementList> {
        let screen = self.room.displays.screen(request.screen.as_deref())?;
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.room.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(Error::unavailable("Too many lists of elements at once").retry_after(1));
        };
        let began = Instant::now();
        let until = began + request.timeout;
        let bus = self.bus().await?;
        let tops = screen.tops().await?;
        let (opened, skipped) = self.open(&bus, &tops, &request, until).await?;
        let mut gathered = Gathered { skipped, ..Gathered::default() };
        self.gather(&screen, &tops, &opened, &request, until, &mut gathered).await;
        let (chosen, short) = choose::choose(&gathered.candidates, &request.wish);
        if short {
            gathered.stop = gathered.stop.max(Some(Stop::Nodes));
        }
        let patience = call_patience(request.timeout);
        let known = self.detail(&bus, &gathered.candidates, &chosen, patience, until).await;
        if known.len() < chosen.len() {
            gathered.stop = gathered.stop.max(Some(Stop::Time));
        }
        let elements = self.records(&screen.id, &opened, &gathered, &chosen, known);
        let reason = gathered.stop.map(Stop::word).or((!gathered.skipped.is_empty()).then_some("skipped"));
        Ok(ElementList {
            elements,
            truncated: reason.is_some(),
            reason: reason.map(str::to_owned),
            skipped: gathered.skipped,
            nodes_seen: u32::try_from(gathered.seen).unwrap_or(u32::MAX),
            took_ms: began.elapsed().as_millis() as u64,
            screen: screen.id.clone(),
        })
    }

    /// Opens every program that is on this screen, all at once.
    async fn open<'a>(
        &self,
        bus: &'a Bus,
        tops: &Tops,
        request: &Request,
        until: Instant,
    ) -> Result<(Vec<Opened<'a>>, Vec<SkippedApp>)> {
        let silent = |fault: Fault| {
            bus.spend();
            let error = Error::unavailable("The accessibility bus does not answer");
            error.retry_after(1).context(fault.reason())
        };
        let programs = bus.programs().await.map_err(silent)?;
        let knows_processes = bus.knows_processes().await.map_err(silent)?;
        let asked = programs.into_iter().take(MOST_PROGRAMS).map(async |root| {
            let pid = if knows_processes {
                bus.pid(&root.name).await
            } else {
                bus.told_pid(&root, self.first_patience(&root.name, request.timeout)).await
            };
            self.note(&root.name, !matches!(pid, Err(Fault::Silent)));
            // One that went meanwhile has nothing to show.
            let pid = pid.ok().filter(|pid| is_here(tops, *pid))?;
            let opened = self.open_one(bus, &root, pid, request, until).await;
            self.note(&root.name, !matches!(opened, Err(Fault::Silent)));
            match opened {
                Ok(opened) => Some(Ok(opened)),
                Err(Fault::Gone | Fault::Unknown) => None,
                Err(fault) => Some(Err(skipped(pid, &fault))),
            }
        });
        let answers: Vec<_> = together(asked).collect().await;
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
        request: &Request,
        until: Instant,
    ) -> Result<Opened<'a>, Fault> {
        let left = until.saturating_duration_since(Instant::now());
        let first = self.first_patience(&root.name, request.timeout).min(left);
        let windows: Vec<Reference> = bus.ask(root, ACCESSIBLE, "GetChildren", &(), first).await?;
        let windows: Vec<Object> = windows.into_iter().filter_map(Object::of).take(MOST_WINDOWS).collect();
        // What has no window needs no tree.
        let bulk = if windows.is_empty() { Duration::ZERO } else { left / 2 };
        let left = until.saturating_duration_since(Instant::now());
        let patience = call_patience(request.timeout).min(left);
        let program = Program::read(bus, root, patience, bulk, request.wish.hidden).await;
        let name = program.node(root).await.map(|node| node.name.clone()).unwrap_or_default();
        let asked = windows.iter().map(|window| program.node(window));
        let nodes: Vec<_> = together(asked).collect().await;
        let windows = nodes.into_iter().flatten().collect();
        Ok(Opened { name: cut(&name, MOST_NAME), pid, windows, program })
    }

    /// Walks the windows in their order until the bounds are met.
    async fn gather(
        &self,
        screen: &Screen,
        tops: &Tops,
        opened: &[Opened<'_>],
        request: &Request,
        until: Instant,
        gathered: &mut Gathered,
    ) {
        let size = screen.size();
        let whole = Area { x: 0, y: 0, width: size.width.into(), height: size.height.into() };
        // What is searched for may be anywhere.
        let searched = request.wish.role.is_some() || request.wish.name.is_some();
        let look = if searched { MOST_LOOK } else { (request.wish.most * LOOK_FACTOR).max(LEAST_LOOK) };
        for window in ordered(opened, tops).await {
            let Opened { program, name, pid, .. } = &opened[window.of];
            let title = &window.node.name;
            let wanted = request.window.as_deref().is_none_or(|part| title.to_lowercase().contains(part));
            let faulty = gathered.skipped.iter().any(|app| app.pid == *pid);
            let away = is_away(tops, *pid, window.place);
            if !wanted || faulty || !(request.wish.hidden || (window.node.is_showing() && !away)) {
                continue;
            }
            let nodes = look - gathered.candidates.len();
            let bounds = Bounds { nodes, depth: request.depth, until, hidden: request.wish.hidden };
            let number = gathered.windows.len();
            gathered.windows.push((window.of, cut(title, MOST_NAME)));
            let walked = walk(program, Arc::clone(&window.node), bounds).await;
            gathered.stop = gathered.stop.max(walked.stop);
            if let Some(fault) = walked.fault {
                let bus_name = &window.node.object.name;
                self.note(bus_name, !matches!(fault, Fault::Silent));
                gathered.skipped.push(SkippedApp { app: name.clone(), pid: *pid, reason: fault.reason() });
            }
            gathered.seen += walked.seen;
            let from = gathered.candidates.len();
            gathered.candidates.extend(walked.found.into_iter().map(|mut found| {
                found.parent = found.parent.map(|parent| from + parent);
                let visible = choose::is_visible(&found, whole, window.area, away);
                Candidate { found, visible, window: number }
            }));
        }
    }

    /// The details of the chosen, as many as the time allows.
    async fn detail(
        &self,
        bus: &Bus,
        candidates: &[Candidate],
        chosen: &[usize],
        patience: Duration,
        until: Instant,
    ) -> Vec<Details> {
        let until = until.max(Instant::now() + super::SHORT_TIMEOUT);
        let asked = chosen.iter().map(|at| details::details(bus, &candidates[*at].found.node, patience));
        let mut answers = together(asked);
        let mut known = Vec::new();
        // A program that falls silent here costs its elements their details, not the list.
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, answers.next()).await {
            known.push(answer.unwrap_or_default());
        }
        known
    }

    fn records(
        &self,
        screen: &str,
        opened: &[Opened<'_>],
        gathered: &Gathered,
        chosen: &[usize],
        known: Vec<Details>,
    ) -> Vec<Element> {
        let mut table = self.table();
        table.next_list();
        let of = |candidate: &Candidate| &opened[gathered.windows[candidate.window].0];
        let ids: std::collections::HashMap<usize, String> = chosen
            .iter()
            .map(|at| {
                let candidate = &gathered.candidates[*at];
                let object = candidate.found.node.object.clone();
                let known = Known { object, pid: of(candidate).pid, screen: screen.to_owned() };
                (*at, table.id(known))
            })
            .collect();
        let known = known.into_iter().chain(std::iter::repeat_with(Details::default));
        let both = chosen.iter().zip(known);
        both.map(|(at, details)| {
            let candidate = &gathered.candidates[*at];
            let program = of(candidate);
            let parent = choose::parent(&gathered.candidates, *at, |other| ids.contains_key(&other));
            let around = Around {
                parent: parent.map(|parent| ids[&parent].clone()),
                window: gathered.windows[candidate.window].1.clone(),
                app: program.name.clone(),
                pid: program.pid,
            };
            record(ids[at].clone(), &candidate.found.node, candidate.found.area, details, around)
        })
        .collect()
    }
}

/// The windows of all programs, in the order in which they are looked at.
async fn ordered(opened: &[Opened<'_>], tops: &Tops) -> Vec<Window> {
    let mut all = Vec::new();
    for (of, program) in opened.iter().enumerate() {
        all.extend(program.windows.iter().map(|node| placed(of, program, node, tops)));
    }
    let mut windows: Vec<Window> = together(all).collect().await;
    windows.sort_by_key(|window| rank(tops, opened[window.of].pid, window.place));
    windows
}

async fn placed(of: usize, program: &Opened<'_>, node: &Arc<Node>, tops: &Tops) -> Window {
    // A window without an area is matched by its title alone.
    let area = program.program.area(node).await.ok().flatten();
    let place = matching(tops, program.pid, node, area);
    Window { of, node: Arc::clone(node), area, place }
}

fn skipped(pid: u32, fault: &Fault) -> SkippedApp {
    SkippedApp { app: process_name(pid), pid, reason: fault.reason() }
}
