//! Atoms of the properties that name the focused window.

use x11rb::protocol::xproto::{Atom, ConnectionExt as _};

use crate::display::fault::Outcome;
use crate::display::link::Link;

/// Atoms of the properties that name the focused window.
#[derive(Clone, Copy, Debug)]
pub(in crate::display) struct FocusAtoms {
    pub(in crate::display) active: Atom,
    pub(in crate::display) manager: Atom,
    pub(in crate::display) title: Atom,
    pub(in crate::display) utf8: Atom,
}

impl FocusAtoms {
    pub(in crate::display) fn intern(link: &Link) -> Outcome<Self> {
        let ask = |name: &[u8]| link.intern_atom(false, name);
        let (active, manager) = (ask(b"_NET_ACTIVE_WINDOW")?, ask(b"_NET_SUPPORTING_WM_CHECK")?);
        let (title, utf8) = (ask(b"_NET_WM_NAME")?, ask(b"UTF8_STRING")?);
        Ok(Self {
            active: active.reply()?.atom,
            manager: manager.reply()?.atom,
            title: title.reply()?.atom,
            utf8: utf8.reply()?.atom,
        })
    }
}
