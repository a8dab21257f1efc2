//! Location of an element by its id, and preparation for a click: scroll into view, raise its window.

use std::sync::Arc;
use std::time::Duration;

use atspi::{Role, ScrollType, State};

use crate::display::{Screen, ToplevelWindow};
use crate::elements::bus::details::{self, Details, MAX_NAME};
use crate::elements::bus::object::{Area, Node, Object, Reference, cut};
use crate::elements::bus::{ACCESSIBLE, Bus, BusFault};
use crate::elements::ids::ElementKey;
use crate::elements::record::{Ancestry, record};
use crate::elements::walk::tree::{COMPONENT, fetch_area, fetch_node};
use crate::elements::windows::matching;
use crate::elements::{CALL_TIMEOUT, Elements, gone, refusal};
use hotdesk_base::wait;
use hotdesk_domain::desktop::pointer::Point;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::desktop::element::Element;

/// Most ancestors that are read; no program nests deeper.
const MAX_ANCESTORS: usize = 100;
/// How long a program may take to scroll, and a window to be raised.
const REACH_TIMEOUT: Duration = Duration::from_secs(2);
/// An element that does not move for this long has been scrolled to its place.
const STILL: Duration = Duration::from_millis(40);

/// A located element.
pub(in crate::elements) struct LocatedElement {
    pub(in crate::elements) bus: Arc<Bus>,
    pub(in crate::elements) id: String,
    pub(in crate::elements) key: ElementKey,
    pub(in crate::elements) screen: Arc<Screen>,
    pub(in crate::elements) node: Node,
    pub(in crate::elements) area: Option<Area>,
    /// Ancestors, the nearest first; the last is the window.
    around: Vec<(Node, Option<Area>)>,
    app: String,
}

impl Elements {
    /// Reads the current state of an id's object.
    pub(in crate::elements) async fn locate(&self, id: &str) -> Result<LocatedElement> {
        let key = self.table().find(id).ok_or_else(gone)?;
        let screen = self.shared.displays.screen(Some(&key.screen)).map_err(|_| gone())?;
        let bus = self.bus().await?;
        let located = LocatedElement::read(bus, id, key, screen).await;
        if let Err(BusFault::Silent) = located {
            self.record_answer(&self.table().find(id).ok_or_else(gone)?.object.name, false);
        }
        located.map_err(|fault| refusal(&fault))
    }
}

impl LocatedElement {
    async fn read(bus: Arc<Bus>, id: &str, key: ElementKey, screen: Arc<Screen>) -> Result<Self, BusFault> {
        let node = fetch_node(&bus, &key.object, CALL_TIMEOUT).await?;
        let place = area(&bus, &node).await?;
        let (mut around, mut app) = (Vec::new(), String::new());
        let mut next = parent(&bus, &key.object).await?;
        // GTK answers for a destroyed widget as long as it is referenced: it then has no parent.
        let orphan = next.is_none() && !is_window(node.role);
        if node.states.contains(State::Defunct) || orphan {
            return Err(BusFault::Gone);
        }
        for _ in 0..MAX_ANCESTORS {
            let Some(object) = next else { break };
            let outer = fetch_node(&bus, &object, CALL_TIMEOUT).await?;
            if outer.role == Role::Application {
                app = outer.name;
                break;
            }
            let outer_place = area(&bus, &outer).await?;
            next = parent(&bus, &object).await?;
            around.push((outer, outer_place));
        }
        Ok(Self { bus, id: id.to_owned(), key, screen, node, area: place, around, app })
    }

    /// Reads the element again.
    pub(in crate::elements) async fn refresh(&self) -> Result<Self, BusFault> {
        let (bus, screen) = (Arc::clone(&self.bus), Arc::clone(&self.screen));
        Self::read(bus, &self.id, self.key.clone(), screen).await
    }

    /// Returns the element's record.
    pub(in crate::elements) async fn record(&self, parent: Option<String>) -> Result<Element, BusFault> {
        let details: Details = details::details(&self.bus, &self.node, CALL_TIMEOUT).await?;
        let around = Ancestry {
            parent,
            window: cut(&self.window().0.name, MAX_NAME),
            app: cut(&self.app, MAX_NAME),
            pid: self.key.pid,
        };
        Ok(record(self.id.clone(), &self.node, self.area, details, around))
    }

    /// Parent object; `None` for a window.
    pub(in crate::elements) fn parent(&self) -> Option<&Object> {
        self.around.first().map(|(node, _)| &node.object)
    }

    /// Window of the element, which may be the element itself.
    fn window(&self) -> (&Node, Option<Area>) {
        self.around.last().map_or((&self.node, self.area), |(node, area)| (node, *area))
    }

    /// Visible part: on the screen, in its window and in the scroll panes around it.
    fn visible(&self) -> Option<Area> {
        let size = self.screen.size();
        let whole = Area { x: 0, y: 0, width: size.width.into(), height: size.height.into() };
        let mut seen = self.area.filter(|_| self.node.is_showing())?.intersection(whole)?;
        let last = self.around.len().saturating_sub(1);
        for (at, (node, area)) in self.around.iter().enumerate() {
            let cuts =
                at == last || matches!(node.role, Role::ScrollPane | Role::Viewport | Role::DocumentWeb);
            if let Some(area) = area.filter(|_| cuts) {
                seen = seen.intersection(area)?;
            }
        }
        Some(seen)
    }

    /// The matching X window, if there is one.
    async fn top(&self) -> Result<Option<ToplevelWindow>> {
        let toplevels = self.screen.toplevel_windows().await?;
        let (window, area) = self.window();
        let place = matching(&toplevels, self.key.pid, window, area);
        Ok(place.map(|place| toplevels.windows[place].clone()))
    }

    /// Raises its window and gives it the focus.
    pub(in crate::elements) async fn raise_window(&self) -> Result<()> {
        let Some(top) = self.top().await? else { return Ok(()) };
        self.screen.activate_window(top.window).await?;
        let screen = &self.screen;
        // A screen without a window manager never reports the active window; the caller's next step then
        // decides.
        wait::until(STILL * 10, || async {
            let toplevels = screen.toplevel_windows().await.ok()?;
            (toplevels.active == Some(top.window)).then_some(())
        })
        .await;
        Ok(())
    }

    /// Makes a part of the element visible and returns the point to click, at which its window receives the
    /// click.
    pub(in crate::elements) async fn bring_into_view(mut self) -> Result<(Self, Point)> {
        let mut seen = self.visible();
        if seen.is_none_or(|seen| self.area.is_some_and(|whole| seen.pixels() < whole.pixels())) {
            self = self.scroll_into_view().await?;
            seen = self.visible();
        }
        if seen.is_none() && self.top().await?.is_some_and(|top| top.minimised) {
            self.raise_window().await?;
            self = self.wait_until_still().await?;
            seen = self.visible();
        }
        let seen = seen.ok_or_else(|| {
            Error::conflict("Nothing of the element can be seen on its screen")
                .code(ErrorCode::ElementNotVisible)
        })?;
        let (x, y) = (seen.x + seen.width / 2, seen.y + seen.height / 2);
        let point = Point::parse(x.into(), y.into(), self.screen.size())?;
        if !self.receives_click(point).await? {
            self.raise_window().await?;
            let came = wait::until(REACH_TIMEOUT, || async {
                self.receives_click(point).await.unwrap_or(false).then_some(())
            });
            if came.await.is_none() {
                return Err(
                    Error::conflict("Another window covers the element").code(ErrorCode::ElementCovered)
                );
            }
        }
        Ok((self, point))
    }

    /// Whether its window receives a click at a point, as far as the X server reports.
    async fn receives_click(&self, point: Point) -> Result<bool> {
        let under = self.screen.windows_at(point).await?;
        if let Some(top) = self.top().await? {
            return Ok(under.iter().any(|(window, _)| *window == top.window));
        }
        let mut owners = under.iter().filter_map(|(_, pid)| *pid).peekable();
        Ok(owners.peek().is_none() || owners.any(|pid| pid == self.key.pid))
    }

    /// Asks its program to scroll it into view, if the program can.
    async fn scroll_into_view(self) -> Result<Self> {
        if !self.node.interfaces.component {
            return Ok(self);
        }
        let anywhere = (ScrollType::Anywhere as u32,);
        let object = &self.key.object;
        match self.bus.call::<bool>(object, COMPONENT, "ScrollTo", &anywhere, CALL_TIMEOUT).await {
            Ok(true) => self.wait_until_still().await,
            // The program cannot scroll it: its visible part decides.
            Ok(false) | Err(BusFault::Unknown | BusFault::Refused(_)) => Ok(self),
            Err(fault @ (BusFault::Gone | BusFault::Silent | BusFault::Lost(_))) => Err(refusal(&fault)),
        }
    }

    /// Reads the element until it does not move any more.
    async fn wait_until_still(self) -> Result<Self> {
        let mut last = self;
        let deadline = tokio::time::Instant::now() + REACH_TIMEOUT;
        loop {
            tokio::time::sleep(STILL).await;
            let now = last.refresh().await.map_err(|fault| refusal(&fault))?;
            let still = now.area == last.area && now.visible().is_some();
            last = now;
            if still || tokio::time::Instant::now() > deadline {
                return Ok(last);
            }
        }
    }
}

/// Whether a role is that of a window: some toolkits give windows no parent.
fn is_window(role: Role) -> bool {
    matches!(role, Role::Frame | Role::Window | Role::Dialog | Role::Alert | Role::Application)
}

async fn parent(bus: &Bus, object: &Object) -> Result<Option<Object>, BusFault> {
    let parent =
        bus.property::<zbus::zvariant::OwnedValue>(object, ACCESSIBLE, "Parent", CALL_TIMEOUT).await?;
    let reference = Reference::try_from(parent).map_err(|error| BusFault::Refused(error.to_string()))?;
    Ok(Object::of(reference).filter(|parent| parent != object))
}

async fn area(bus: &Bus, node: &Node) -> Result<Option<Area>, BusFault> {
    if node.interfaces.component { fetch_area(bus, &node.object, CALL_TIMEOUT).await } else { Ok(None) }
}
