//! Bounds of a definition file: they keep the time and the memory of a validation small.

/// Largest document in bytes (1 MiB). Files of more than some kilobytes belong beside the document (`from`).
/// Text that aliases repeat counts each time.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// Most values of a document, with those that aliases repeat: aliases of aliases ("billion laughs") would need
/// gigabytes. The largest valid documents have about a tenth.
pub const MAX_NODES: usize = 50_000;
/// Deepest nesting of values. The deepest field, an environment variable of a service, is at 7.
pub const MAX_DEPTH: usize = 16;
/// Most errors of an answer: who repairs a hundred validates again.
pub const MAX_ERRORS: usize = 100;

/// Most entries of a list or a map: more than any desktop starts or installs, few enough to check at once.
pub const MAX_ENTRIES: usize = 256;
/// Most lines of `build.run`, and most applications, services of one, triggers and terminals (docs/templates.md).
pub const MAX_STEPS: usize = 64;
/// Longest script or inline file, in bytes (256 KiB). Larger files have a `from`.
pub const MAX_SCRIPT_BYTES: usize = 256 * 1024;
/// Longest other text, in bytes: the longest path of Linux (`PATH_MAX`), which no URL or command line of a person
/// exceeds.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Longest text after interpolation, in bytes (1 MiB): a script could name a long variable thousands of times.
pub const MAX_EXPANDED_BYTES: usize = 1 << 20;
