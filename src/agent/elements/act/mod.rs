//! Click, value change and keyboard focus of an element, with a check of the effect.

pub(super) mod locate;
pub(super) mod value;

use std::sync::Arc;
use std::time::Duration;

use atspi::State;

use crate::display::Press;
use crate::elements::act::locate::LocatedElement;
use crate::elements::act::value::NewValue;
use crate::elements::bus::BusFault;
use crate::elements::bus::details::ACTION;
use crate::elements::ids::ElementKey;
use crate::elements::walk::tree::COMPONENT;
use crate::elements::{CALL_TIMEOUT, Elements, refusal};
use hotdesk_base::wait;
use hotdesk_domain::desktop::pointer::{Button, Point};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::desktop::element::{Element, ElementActionResult, ElementClick, ElementValue};

/// How long a click may take to change the element itself; most programs react within one drawn frame.
const EFFECT_TIMEOUT: Duration = Duration::from_millis(250);
/// A record that is unchanged for this long shows the final state.
const STILL: Duration = Duration::from_millis(50);
/// Most reads of a record that keeps changing.
const MAX_READS: usize = 5;
/// How long a value or the focus may take to change: a browser on a busy machine needs more than a second
/// after its positive answer. Success is detected at once, so only a failure takes this long.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an action's answer may take: a modal dialog that the action opens may delay it until the dialog
/// closes.
const ACTION_TIMEOUT: Duration = Duration::from_millis(800);
/// The same after the program refused the change: some programs refuse and change all the same.
const REFUSED_TIMEOUT: Duration = Duration::from_millis(700);

impl Elements {
    /// Clicks an element with the pointer, or executes the first action that its program offers.
    ///
    /// # Errors
    /// `Invalid` for bad parameters; `NotFound` (`element_gone`); `Conflict` when the element is not visible
    /// (`element_not_visible`), covered (`element_covered`) or has no action (`element_no_action`);
    /// `TimedOut` when its program does not answer; `Unavailable` without an accessibility bus; `Conflict`
    /// (`control_held`) while another actor than `by` holds the screen.
    pub async fn click(
        &self,
        by: Option<Actor>,
        id: &str,
        click: &ElementClick,
    ) -> Result<ElementActionResult> {
        let button = Button::parse(click.button.as_deref())?;
        let double = click.double.unwrap_or(false);
        let by_action = match click.method.as_deref() {
            None | Some("pointer") => false,
            Some("action") if click.button.is_some() || double => {
                return Err(Error::invalid("an action has no button and is done once"));
            }
            Some("action") => true,
            Some(_) => return Err(Error::invalid("method must be pointer or action")),
        };
        let located = self.locate(id).await?;
        let screen = Arc::clone(&located.screen);
        let input = screen.control().admit(by).await?;
        let before = self.current_record(&located).await.ok();
        let (point, refused) = if by_action {
            (None, first_action(&located).await?)
        } else {
            let (located, point) = located.bring_into_view().await?;
            let press = Press { button, count: if double { 2 } else { 1 }, modifiers: Vec::new() };
            // The turn comes before the admission, as with actions: a taker never waits for both.
            drop(input);
            let _turn = screen.acquire_turn().await?;
            let _input = screen.control().admit(by).await?;
            (Some(located.screen.click(point.x.into(), point.y.into(), press).await?.value), None)
        };
        let after = self.changed(id, before.as_ref()).await;
        let action = if double { "double_click" } else { "click" };
        Ok(acted(action, refused, point, after))
    }

    /// Sets an element's text or number, and reads it back.
    ///
    /// # Errors
    /// Those of [`Elements::click`]; `Conflict` (`element_not_settable`) for an element without text or
    /// number.
    pub async fn set_value(
        &self,
        by: Option<Actor>,
        id: &str,
        value: &ElementValue,
    ) -> Result<ElementActionResult> {
        let located = self.locate(id).await?;
        let wanted = NewValue::of(&located, value)?;
        let refused = wanted.set(&located, by).await?;
        let reads_back = wait::until(change_timeout(refused), || async {
            wanted.is_so(&located).await.unwrap_or(false).then_some(())
        });
        let reason = match reads_back.await {
            Some(()) => None,
            None => Some(refused.unwrap_or("the value read back is another")),
        };
        let after = self.changed(id, None).await;
        Ok(acted("set_value", reason, None, after))
    }

    /// Gives the keyboard focus to an element and its window.
    ///
    /// # Errors
    /// Those of [`Elements::click`].
    pub async fn focus(&self, by: Option<Actor>, id: &str) -> Result<ElementActionResult> {
        let located = self.locate(id).await?;
        let reason = {
            let _input = located.screen.control().admit(by).await?;
            take_focus(&located).await?
        };
        let after = self.changed(id, None).await;
        Ok(acted("focus", reason, None, after))
    }

    /// Returns the record of a located element.
    async fn current_record(&self, located: &LocatedElement) -> Result<Element, BusFault> {
        let ElementKey { pid, screen, .. } = located.key.clone();
        let parent = located.parent().map(|object| {
            let key = ElementKey { object: object.clone(), pid, screen };
            self.table().id(key)
        });
        located.record(parent).await
    }

    /// Returns the record after an action: when it differs from `before` and is stable, else after a timeout;
    /// `None` when the element is gone.
    async fn changed(&self, id: &str, before: Option<&Element>) -> Option<Element> {
        let read = || async { self.current_record(&self.locate(id).await.ok()?).await.ok() };
        let Some(before) = before else { return read().await };
        let differs = wait::until(EFFECT_TIMEOUT, || async {
            let now = read().await;
            (now.as_ref() != Some(before)).then_some(now)
        });
        let Some(mut last) = differs.await else { return Some(before.clone()) };
        // The press and the release may each change it.
        for _ in 0..MAX_READS {
            tokio::time::sleep(STILL).await;
            let now = read().await;
            if now == last {
                break;
            }
            last = now;
        }
        last
    }
}

/// How long a change may take after the program's answer.
fn change_timeout(refused: Option<&str>) -> Duration {
    if refused.is_some() { REFUSED_TIMEOUT } else { CHANGE_TIMEOUT }
}

fn acted(
    action: &str,
    refused: Option<&str>,
    point: Option<Point>,
    element: Option<Element>,
) -> ElementActionResult {
    ElementActionResult {
        success: refused.is_none(),
        action: action.to_owned(),
        x: point.map(|point| point.x.into()),
        y: point.map(|point| point.y.into()),
        reason: refused.map(str::to_owned),
        element,
    }
}

/// Gives the focus to an element; returns why it does not have it, if it does not.
pub(super) async fn take_focus(located: &LocatedElement) -> Result<Option<&'static str>> {
    if !located.node.states.contains(State::Focused) {
        located.raise_window().await?;
    }
    let asked: Result<bool, BusFault> =
        located.bus.call(&located.key.object, COMPONENT, "GrabFocus", &(), CALL_TIMEOUT).await;
    let refused = match asked {
        Ok(true) => None,
        Ok(false) | Err(BusFault::Unknown | BusFault::Refused(_)) => Some("the program refused the focus"),
        Err(fault @ (BusFault::Gone | BusFault::Silent | BusFault::Lost(_))) => return Err(refusal(&fault)),
    };
    let focused = wait::until(change_timeout(refused), || async {
        let now = located.refresh().await.ok()?;
        now.node.states.contains(State::Focused).then_some(())
    });
    Ok(match focused.await {
        Some(()) => None,
        None => Some(refused.unwrap_or("the element does not say that it has the focus")),
    })
}

/// Executes the first action; returns why the program did not, if it did not.
async fn first_action(located: &LocatedElement) -> Result<Option<&'static str>> {
    if !located.node.interfaces.action {
        return Err(Error::conflict("The element has no action").code(ErrorCode::ElementNoAction));
    }
    match located.bus.call(&located.key.object, ACTION, "DoAction", &(0_i32,), ACTION_TIMEOUT).await {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some("the program refused the action")),
        // A modal dialog that the action opens may delay the answer.
        Err(BusFault::Silent) => Ok(Some("the program did not answer in time")),
        Err(fault) => Err(refusal(&fault)),
    }
}
