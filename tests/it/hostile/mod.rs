//! Tests of hostile computers and failing hosts: T4, T18 (docs/security.md).

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::get;

use crate::floors::{root, rust_files};
use crate::harness::picture::PNG_HEADER;

mod attack;
mod connections;
mod control_frames;
mod faults;
mod flood;
mod front;
mod full_disk;
mod ids;
mod lies;
mod open_port;
mod pictures;
mod sign_in;
mod unread;

/// Size of a hostile guest's screenshot. Two of them exceed the 128 MiB of answers of a computer, and eleven exceed what
/// an account may store.
const PICTURE_BYTES: usize = 100 * 1024 * 1024;

/// A screen besides the boot screen, whose size the controller does not know.
const LARGE_SCREEN: &str = "screen-2";

/// Routes of an agent whose screenshots are as large as a hostile guest makes them.
fn large_pictures() -> Router {
    let picture = Bytes::from([PNG_HEADER, &[0; PICTURE_BYTES]].concat());
    Router::new().route("/screenshot", get(async move || ([(header::CONTENT_TYPE, "image/png")], picture)))
}

/// Names in backquotes in the last cells of the table "Attacks tried".
fn named_tests(page: &str) -> Vec<&str> {
    let (_, section) = page.split_once("## Attacks tried").expect("the section");
    let cells = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    cells
        .filter_map(|line| line.trim_end_matches(" |").rsplit(" | ").next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn every_attack_that_the_page_on_security_reports_is_a_test() {
    let page = std::fs::read_to_string(root().join("docs/security.md")).expect("the page");
    let names = named_tests(&page);
    assert!(names.len() > 25, "{names:?}");
    let folders = ["tests/it", "src"].map(|folder| rust_files(&root().join(folder)));
    let sources: String =
        folders.iter().flatten().map(|file| std::fs::read_to_string(file).expect("a source")).collect();
    for name in names {
        assert!(sources.contains(&format!("fn {name}()")), "no test has the name {name}");
    }
}
