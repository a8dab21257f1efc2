//! Chat completions, models and threads (docs/api/chat.md).

pub mod completion;
pub mod prompt;
pub mod thread;
