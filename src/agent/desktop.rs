//! What do commands and the health answer need to know of the screens? This, and nothing of X.

/// The computer's desktop as the rest of the agent sees it.
pub trait Desktop: Send + Sync {
    /// Whether the boot screen has a window manager.
    fn ready(&self) -> bool;
    /// How many screens there are.
    fn screens(&self) -> u32;
    /// What programs need to reach the boot screen: `DISPLAY`, `XAUTHORITY`, the session bus.
    fn environment(&self) -> Vec<(String, String)>;
}

/// No desktop at all: an agent for commands and files only.
#[derive(Clone, Copy, Debug)]
pub struct Headless;

impl Desktop for Headless {
    fn ready(&self) -> bool {
        true
    }

    fn screens(&self) -> u32 {
        0
    }

    fn environment(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
