//! Desktops that are booted before somebody asks for them: boot snapshots, and the pool of computers that nobody has
//! claimed.
//!
//! Each is a machine without a computer. No client can reach it, and it holds nothing of any account.
//!
//! ```text
//!   create -- one in the pool? -- yes --> claim it (its id becomes the computer's), new token
//!      \-- a boot snapshot of this size? -- yes --> launch, new identity
//!             \-- no --> boot; the size is wanted --> `build.rs`, in the background
//!   refill of the pool -- the same, without the pool
//! ```

pub(super) mod boot_snapshots;
mod build;
pub(super) mod pool;
