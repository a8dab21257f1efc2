//! Tables of saved states: their copies in storage, and the keys of workspaces that seal them.

pub mod saved_copies;
mod workspace_keys;
