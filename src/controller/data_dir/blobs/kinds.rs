//! Kinds of blobs.

/// Kind of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobKind {
    /// A stored screenshot. It is removed when its link expires.
    Screenshot,
    /// A file of a workspace.
    File,
    /// The screen after a step of a chat thread. It stays as long as the step has it.
    StepPicture,
    /// A small picture of a screen in a timeline. It stays as long as its entry has it.
    TimelinePicture,
    /// A small picture of the screen in a snapshot. It stays as long as the snapshot has it.
    SnapshotPicture,
}

/// Kind of pictures that stay as long as a record has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureKind {
    /// The screen after a step of a chat thread.
    Step,
    /// A small picture of a screen in a timeline.
    Timeline,
    /// A small picture of the screen in a snapshot.
    Snapshot,
}

impl PictureKind {
    /// Returns the kind of the blobs.
    pub fn blob(self) -> BlobKind {
        match self {
            Self::Step => BlobKind::StepPicture,
            Self::Timeline => BlobKind::TimelinePicture,
            Self::Snapshot => BlobKind::SnapshotPicture,
        }
    }
}

impl BlobKind {
    /// Every kind.
    pub(super) const ALL: [Self; 5] =
        [Self::Screenshot, Self::File, Self::StepPicture, Self::TimelinePicture, Self::SnapshotPicture];

    /// Returns the name in links and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Screenshot => "screenshots",
            Self::File => "files",
            Self::StepPicture => "step-pictures",
            Self::TimelinePicture => "timeline-pictures",
            Self::SnapshotPicture => "snapshot-pictures",
        }
    }

    /// Parses the name in a link.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
