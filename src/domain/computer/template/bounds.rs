//! Bounds of a definition file: they keep the time and the memory of a validation small.

use std::time::Duration;

/// Largest document in bytes (1 MiB). Files of more than some kilobytes belong beside the document (`from`).
/// Text that aliases repeat counts each time.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// Most values of a document, with those that aliases repeat: aliases of aliases ("billion laughs") would need
/// gigabytes. The largest valid documents have about a tenth.
pub const MAX_NODES: usize = 50_000;
/// Deepest nesting of values. The deepest field, an environment variable of a service, is at 7.
pub const MAX_DEPTH: usize = 16;
/// Most errors in one answer. A person fixes these and validates again.
pub const MAX_ERRORS: usize = 100;

/// Most entries of a list or a map: more than any desktop starts or installs, few enough to check at once.
pub const MAX_ENTRIES: usize = 256;
/// Most lines of `build.run`, and most applications, services of one, triggers and terminals (docs/templates.md).
pub const MAX_STEPS: usize = 64;
/// Longest script or inline file, in bytes (256 KiB), before and after interpolation. Larger files have a `from`.
pub const MAX_SCRIPT_BYTES: usize = 256 * 1024;
/// Longest other text, in bytes, before and after interpolation: the longest path of Linux (`PATH_MAX`), which no URL
/// or command line of a person exceeds.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Most bytes that references insert into all texts of a document (8 MiB): eight bytes of text name a value of
/// [`MAX_TEXT_BYTES`], so that the largest document could stand for half a gigabyte. Eight times its own length is
/// more than any template needs.
pub const MAX_INSERTED_BYTES: usize = 8 << 20;

/// Life of a computer that was launched to try a template (`POST /templates/run`): long enough to look at everything in
/// it, and a forgotten one uses up the plan for an hour at most.
pub const RUN_TIME: Duration = Duration::from_secs(3600);
/// Most templates of an account, versions counted singly.
pub const MAX_TEMPLATES: i64 = 200;
/// Most templates that an account marks with a star: as many as it has, and those of the service.
pub const MAX_STARS: i64 = MAX_TEMPLATES + 50;
/// Most bytes of all normalised documents of an account (4 MiB), because a list has all of them: 200 of 20 KB.
pub const MAX_TEMPLATE_BYTES: i64 = 4 << 20;
/// Most layers of a template, as many as an engine takes.
pub const MAX_TEMPLATE_LAYERS: usize = 16;
/// Most layers that the scripts of `build.run` become. There are fewer where `env`, `apt`, `pip`, `npm`, `files`, the
/// applications, the services and an imported image with its desktop leave less of [`MAX_TEMPLATE_LAYERS`].
pub const MAX_RUN_LAYERS: usize = 10;
/// Part of the digest of every layer. It changes when a later version builds something else from the same definition.
pub const SCRIPT_OF_BUILD_VERSION: &str = "1";
