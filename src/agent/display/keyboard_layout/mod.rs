//! Keyboard layout: names of keys, the X server's key map, and spare keycodes for characters that it lacks.
//!
//! Only [`keymap`] reads from the X server; nothing here sends input.

use std::time::Instant;

pub(super) mod keymap;
pub mod keys;
pub(super) mod pools;
pub(super) mod text;

use pools::Pools;

/// Keyboard state of a worker between requests.
#[derive(Debug)]
pub(in crate::display) struct Keyboard {
    pub(in crate::display) has_xkb: bool,
    pub(in crate::display) pools: Option<Pools>,
    /// When a spare key was last pressed.
    pub(in crate::display) typed: Option<Instant>,
}

impl Keyboard {
    pub(in crate::display) fn new(has_xkb: bool) -> Self {
        Self { has_xkb, pools: None, typed: None }
    }
}
