//! Does the time that a key's check takes tell where a wrong key goes wrong? Welch's t by dudect over keys that are wrong in
//! their first and in their last character; |t| below 4.5 tells nothing (access.md A4). Run by `benches/key_check.py`.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;

use dudect_bencher::ctbench::{BenchMetadata, BenchName, BenchOpts, run_benches_console};
use dudect_bencher::{BenchRng, Class, CtRunner};
use hotdesk::base::secret::{BASE62, Secret};
use hotdesk::controller::auth::keys;
use hotdesk::domain::api_key;
use hotdesk::domain::error::Kind;
use hotdesk::store::Store;
use rand::RngExt;
use rand::seq::IndexedRandom;

/// Comparisons of two digests: tens of nanoseconds each.
const COMPARISONS: usize = 1_000_000;
/// Look-ups in a store: tens of microseconds each.
const LOOK_UPS: usize = 100_000;
/// Other keys in that store.
const KEYS: usize = 1000;
/// Other characters that stand in the wrong place: as many texts, of which each is tried again and again, so that neither
/// kind of wrong is newer to the processor than the other.
const TEXTS: usize = 64;

/// A text that is wrong at one place.
fn wrong_at(place: usize, right: &str, alphabet: &[u8], rng: &mut BenchRng) -> String {
    let mut text = right.as_bytes().to_vec();
    while text[place] == right.as_bytes()[place] {
        text[place] = *alphabet.choose(rng).unwrap();
    }
    String::from_utf8(text).unwrap()
}

/// Texts that are wrong in the first or in the last character, in random turns.
fn in_turns(
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

fn compared(runner: &mut CtRunner, rng: &mut BenchRng, same: impl Fn(&Secret, &str) -> bool) {
    let right = keys::digest(keys::fresh().reveal());
    let wrong = |place, rng: &mut BenchRng| wrong_at(place, &right, b"0123456789abcdef", rng);
    let texts = in_turns(COMPARISONS, right.len(), rng, wrong);
    let right = Secret::new(right.as_str());
    for (class, text) in &texts {
        runner.run_one(*class, || same(&right, text));
    }
}

/// The last word of a look-up.
fn digest_compare(runner: &mut CtRunner, rng: &mut BenchRng) {
    compared(runner, rng, Secret::matches);
}

/// What ends at the first difference: the measure has to see it.
fn leaking_compare(runner: &mut CtRunner, rng: &mut BenchRng) {
    let same = |right: &Secret, text: &str| right.reveal().bytes().zip(text.bytes()).all(|(a, b)| a == b);
    compared(runner, rng, same);
}

/// A whole check as each request has it: form, checksum, digest, store.
fn key_look_up(runner: &mut CtRunner, rng: &mut BenchRng) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("hotdesk.db");
    let (store, key) = runtime.block_on(async {
        let store = Store::open(&file).await.unwrap();
        let key = keys::first_key(&store).await.unwrap().unwrap();
        let holder = keys::holder(&store, key.reveal()).await.unwrap();
        for _ in 0..KEYS {
            let other = keys::fresh();
            let new = hotdesk::store::accounts::NewKey {
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
    // With the right checksum: another one is refused before anything is looked up.
    let wrong = |place, rng: &mut BenchRng| api_key::assemble(&wrong_at(place, random, BASE62, rng));
    for (class, text) in &in_turns(LOOK_UPS, random.len(), rng, wrong) {
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
