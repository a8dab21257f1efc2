//! Which names of selections, forms and types are spoken here?

x11rb::atom_manager! {
    /// The atoms, as this server numbers them.
    pub(super) Atoms:
    /// The requests for them.
    AtomsCookie {
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

impl Atoms {
    /// The property to receive the next answer in. They take turns, so that the late answer of an owner that had been
    /// given up is not taken for the next one's.
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

    /// Whether a target is a question about the content or a command, not a form of it.
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
