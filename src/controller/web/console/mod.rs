//! Console: the embedded pages that people see computers in, and their live records (docs/console.md).
//! `packaging/dev/console` builds the pages.

use axum::Router;
use axum::routing::get;
use include_dir::{Dir, include_dir};

use crate::AppState;

mod assets;
mod live;
mod shell;

pub use assets::{accepts_gzip, address as asset_address};
pub use shell::shell;

/// The build: one page, and assets whose names contain a hash of their content.
static BUILD: Dir = include_dir!("$CONSOLE_FOLDER");

/// Returns the routes of the assets and of the live records.
pub fn router() -> Router<AppState> {
    Router::new().route("/app/{*path}", get(assets::asset)).merge(live::router())
}
