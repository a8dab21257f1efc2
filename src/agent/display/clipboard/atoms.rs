//! X atoms of selections, targets and types that the clipboard uses.

x11rb::atom_manager! {
    /// The atom numbers of one X server.
    pub(super) ClipboardAtoms:
    /// Pending `InternAtom` requests.
    ClipboardAtomsCookie {
        CLIPBOARD,
        TARGETS,
        TIMESTAMP,
        MULTIPLE,
        ATOM_PAIR,
        INCR,
        SAVE_TARGETS,
        DELETE,
        INSERT_SELECTION,
        INSERT_PROPERTY,
        UTF8_STRING,
        TEXT,
        COMPOUND_TEXT,
        TEXT_UTF8: b"text/plain;charset=utf-8",
        TEXT_PLAIN: b"text/plain",
        IMAGE_PNG: b"image/png",
        CLOCK: b"HOTDESK_CLOCK",
        INBOX_0: b"HOTDESK_INBOX_0",
        INBOX_1: b"HOTDESK_INBOX_1",
        INBOX_2: b"HOTDESK_INBOX_2",
        INBOX_3: b"HOTDESK_INBOX_3",
        INBOX_4: b"HOTDESK_INBOX_4",
        INBOX_5: b"HOTDESK_INBOX_5",
        INBOX_6: b"HOTDESK_INBOX_6",
        INBOX_7: b"HOTDESK_INBOX_7",
    }
}

impl ClipboardAtoms {
    /// The property for the answer to conversion number `turn`. The properties rotate, so that a late answer
    /// from an owner that timed out is not mistaken for the answer to the next request.
    pub(super) fn inbox(&self, turn: usize) -> u32 {
        let all = [
            self.INBOX_0,
            self.INBOX_1,
            self.INBOX_2,
            self.INBOX_3,
            self.INBOX_4,
            self.INBOX_5,
            self.INBOX_6,
            self.INBOX_7,
        ];
        all[turn % all.len()]
    }

    /// Whether a target is metadata or a command and not a representation of the content.
    pub(super) fn is_meta(&self, target: u32) -> bool {
        [
            self.TARGETS,
            self.TIMESTAMP,
            self.MULTIPLE,
            self.SAVE_TARGETS,
            self.DELETE,
            self.INSERT_SELECTION,
            self.INSERT_PROPERTY,
        ]
        .contains(&target)
    }
}
