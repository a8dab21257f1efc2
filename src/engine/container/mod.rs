//! The `container` engine.
