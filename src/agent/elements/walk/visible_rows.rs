//! Visible rows of a long list, found by the objects at its corners instead of a call for each child.

use atspi::{CoordType, Role, State};
use futures_util::StreamExt as _;

use crate::elements::bus::object::{Node, Object, Reference};
use crate::elements::bus::{ACCESSIBLE, BusFault};
use crate::elements::walk::tree::{
    COMPONENT, MANY_CHILDREN, MAX_CHILDREN, ProgramTree, Tree as _, run_concurrently,
};

/// Distance of the probed points from the list's border, in pixels.
const INSET: i32 = 4;
/// Vertical offsets of the probed points from the list's top, in pixels: rows begin below a header, whose
/// cells are no rows.
const PROBES_DOWN: [i32; 5] = [4, 24, 44, 64, 84];

/// Whether the children are in the order of their indices: only then the children between two corners are the
/// visible ones.
fn is_in_rows(node: &Node) -> bool {
    let role = matches!(node.role, Role::List | Role::ListBox | Role::Table | Role::Tree | Role::TreeTable);
    role || node.states.contains(State::ManagesDescendants)
}

impl ProgramTree<'_> {
    /// Returns the first and the last visible child of a long list; `None` when its program does not report
    /// them, or too many are visible.
    pub(in crate::elements) async fn visible_rows(
        &self,
        node: &Node,
    ) -> Result<Option<(i32, i32)>, BusFault> {
        if !node.interfaces.component || !is_in_rows(node) {
            return Ok(None);
        }
        let Some(area) = self.area(node).await? else { return Ok(None) };
        let top = PROBES_DOWN.map(|down| (area.x + INSET, area.y + down));
        let (right, bottom) = (area.x + area.width - INSET, area.y + area.height - INSET);
        // A list that is not full ends above its bottom, and a row may end before the right edge.
        let ends = [(right, bottom), (area.x + INSET, bottom)];
        let calls = top.into_iter().chain(ends).map(|point| self.child_at(node, point));
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut answers = run_concurrently(calls);
        while let Some(answer) = answers.next().await {
            let found = if first.len() < PROBES_DOWN.len() { &mut first } else { &mut last };
            found.push(answer?);
        }
        // A header's cells precede all rows: of the probes from the top the last ones are rows.
        let end = last.into_iter().flatten().max();
        let begin = first
            .into_iter()
            .flatten()
            .reduce(|above, below| if below > above + MANY_CHILDREN { below } else { above });
        Ok(begin.zip(end).filter(|(begin, end)| begin <= end && end - begin < MAX_CHILDREN))
    }

    /// Index of the child at a point.
    async fn child_at(&self, node: &Node, (x, y): (i32, i32)) -> Result<Option<i32>, BusFault> {
        let asked = (x, y, CoordType::Screen as u32);
        let found: Reference = match self
            .bus
            .call(&node.object, COMPONENT, "GetAccessibleAtPoint", &asked, self.timeout)
            .await
        {
            Ok(found) => found,
            Err(fault @ (BusFault::Silent | BusFault::Lost(_))) => return Err(fault),
            Err(BusFault::Gone | BusFault::Unknown | BusFault::Refused(_)) => return Ok(None),
        };
        let Some(child) = Object::of(found).filter(|child| *child != node.object) else { return Ok(None) };
        match self.bus.call(&child, ACCESSIBLE, "GetIndexInParent", &(), self.timeout).await {
            Ok(number) => Ok(Some(number).filter(|number: &i32| *number >= 0)),
            Err(fault @ (BusFault::Silent | BusFault::Lost(_))) => Err(fault),
            Err(BusFault::Gone | BusFault::Unknown | BusFault::Refused(_)) => Ok(None),
        }
    }
}
