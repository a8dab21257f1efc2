//! Timing leak test of the API key check (A4, docs/authentication-rules.md).
//!
//! dudect compares keys that are wrong in their first character with keys that are wrong in their last one.
//! A Welch's t with |t| below 4.5 shows no leak. `benches/key_check.py` runs it.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;

use dudect_bencher::ctbench::{BenchMetadata, BenchName, BenchOpts, run_benches_console};
use dudect_bencher::{BenchRng, Class, CtRunner};
use hotdesk::base::secret::{BASE62, Secret};
use hotdesk::controller::identity::auth::keys;
use hotdesk::domain::error::Kind;
use hotdesk::domain::identity::api_key;
use hotdesk::store::Store;
use rand::RngExt;
use rand::seq::IndexedRandom;

/// Comparisons of two digests: tens of nanoseconds each.
const COMPARISONS: usize = 1_000_000;
/// Look-ups in a store: tens of microseconds each.
const LOOK_UPS: usize = 100_000;
/// Number of other keys in that store.
const KEYS: usize = 1000;
/// Number of texts per kind of wrong key. Each text is used many times, so that neither kind is newer to the
/// processor's caches than the other.
const TEXTS: usize = 64;

/// A text that is wrong at one position.
fn wrong_at(position: usize, right: &str, alphabet: &[u8], rng: &mut BenchRng) -> String {
    let mut text = right.as_bytes().to_vec();
    while text[position] == right.as_bytes()[position] {
        text[position] = *alphabet.choose(rng).unwrap();
    }
    String::from_utf8(text).unwrap()
}

/// Texts that are wrong in the first or in the last character, in random order.
fn shuffled(
    count: usize,
    length: usize,
    rng: &mut BenchRng,
    wrong: impl Fn(usize, &mut BenchRng) -> String,
) -> Vec<(Class, String)> {
    let first: Vec<String> = (0..TEXTS).map(|_| wrong(0, rng)).collect();
    let last: Vec<String> = (0..TEXTS).map(|_| wrong(length - 1, rng)).collect();
    let turn = |_| {
        let (class, texts) = if rng.random() { (Class::Left, &first) } else { (Class::Right, &last) };
        (class, texts.choose(rng).unwrap().clone())
    };
    (0..count).map(turn).collect()
}

fn compare(runner: &mut CtRunner, rng: &mut BenchRng, same: impl Fn(&Secret, &str) -> bool) {
    let right = keys::digest(keys::generate().reveal());
    let wrong = |position, rng: &mut BenchRng| wrong_at(position, &right, b"0123456789abcdef", rng);
    let texts = shuffled(COMPARISONS, right.len(), rng, wrong);
    let right = Secret::new(right.as_str());
    for (class, text) in &texts {
        runner.run_one(*class, || same(&right, text));
    }
}

/// The last step of a look-up: a comparison in constant time.
fn digest_compare(runner: &mut CtRunner, rng: &mut BenchRng) {
    compare(runner, rng, Secret::matches);
}

/// A comparison that ends at the first difference: the method must detect it.
fn leaking_compare(runner: &mut CtRunner, rng: &mut BenchRng) {
    let same = |right: &Secret, text: &str| right.reveal().bytes().zip(text.bytes()).all(|(a, b)| a == b);
    compare(runner, rng, same);
}

/// The complete check of a request: format, checksum, digest, store.
fn key_look_up(runner: &mut CtRunner, rng: &mut BenchRng) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("hotdesk.db");
    let (store, key) = runtime.block_on(async {
        let store = Store::open(&file).await.unwrap();
        let key = keys::first_key(&store).await.unwrap().unwrap();
        let holder = keys::holder(&store, key.reveal()).await.unwrap();
        for _ in 0..KEYS {
            let other = keys::generate();
            let new = hotdesk::store::identity::accounts::NewKey {
                account: holder.account,
                workspace: None,
                name: "other",
                digest: &keys::digest(other.reveal()),
                last_four: keys::last_four(&other),
            };
            store.add_key(&new).await.unwrap();
        }
        (store, key)
    });
    let random = &key.reveal()[api_key::PREFIX.len()..][..api_key::RANDOM_CHARACTERS];
    // The checksum is right: the check refuses a wrong one before the look-up.
    let wrong = |position, rng: &mut BenchRng| api_key::assemble(&wrong_at(position, random, BASE62, rng));
    for (class, text) in &shuffled(LOOK_UPS, random.len(), rng, wrong) {
        runner.run_one(*class, || {
            let found = runtime.block_on(keys::holder(&store, text));
            assert_eq!(found.map(|_| ()).map_err(|error| error.kind), Err(Kind::Unauthenticated));
        });
    }
    runtime.block_on(store.close());
}

fn main() -> std::io::Result<()> {
    let bench = |name, benchfn| BenchMetadata { name: BenchName(name), seed: None, benchfn };
    let benches = vec![
        bench("digest_compare", digest_compare as fn(&mut CtRunner, &mut BenchRng)),
        bench("key_look_up", key_look_up),
        bench("leaking_compare", leaking_compare),
    ];
    run_benches_console(BenchOpts::default(), benches)
}
