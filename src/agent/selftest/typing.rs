//! Does every character arrive, whatever script it is of?

use std::time::{Duration, Instant};

use super::finding::{Found, Measured};
use super::screen::Lit;
use hotdesk_base::wait;

/// Characters of each kind: most are on a keyboard, the others need spare keys.
const KINDS: [(char, u32, usize); 5] = [
    // ASCII from `!`, Latin-1 from `À`, Chinese, kana, faces.
    ('!', 90, 90),
    ('À', 62, 50),
    ('一', 400, 30),
    ('あ', 60, 15),
    ('😀', 60, 15),
];
/// How long the last one may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(6);

pub(super) async fn check(lit: &Lit) -> Found {
    let text = text();
    let count = text.chars().count();
    lit.receiver.forget_keys();
    let began = Instant::now();
    let typed = lit.screen.type_text(&text, false).await?;
    let took = began.elapsed();
    let arrived =
        wait::until(ARRIVAL, || async { (lit.receiver.text().chars().count() >= count).then_some(()) });
    arrived.await;
    let got = lit.receiver.text();
    Measured::new("ASCII, Latin-1, Chinese, kana and emoji arrived as they were typed")
        .with("sent", count as f64)
        .with("right", right(&text, &got) as f64)
        .with("characters_per_s", count as f64 / took.as_secs_f64().max(0.001))
        .only_if(got == text, || told(&text, &got, typed.value.focus_changed_at))
}

/// Different characters of every kind, in turn.
fn text() -> String {
    let of_kind = |(first, range, count): (char, u32, usize)| {
        // Steps of 7, which divides no range: all differ, and neighbours are not neighbours on the keyboard.
        (0..count as u32).filter_map(move |step| char::from_u32(u32::from(first) + step * 7 % range))
    };
    KINDS.into_iter().flat_map(of_kind).collect()
}

/// How many characters are where they belong.
fn right(sent: &str, got: &str) -> usize {
    sent.chars().zip(got.chars()).filter(|(sent, got)| sent == got).count()
}

/// What went wrong, in a sentence.
fn told(sent: &str, got: &str, focus_changed_at: Option<usize>) -> String {
    let (count, arrived) = (sent.chars().count(), got.chars().count());
    let first = sent.chars().zip(got.chars()).enumerate().find(|(_, (sent, got))| sent != got);
    let mut told = format!("{arrived} of {count} characters arrived");
    if let Some((at, (sent, got))) = first {
        let (sent, got) = (u32::from(sent), u32::from(got));
        told += &format!("; number {} is U+{got:04X} instead of U+{sent:04X}", at + 1);
    }
    if let Some(at) = focus_changed_at {
        told += &format!("; after {at} another window had the keyboard");
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_every_kind_and_a_fault_is_told_by_its_place() {
        let text = text();
        assert_eq!(text.chars().count(), 200);
        for character in ['!', 'x', 'ü', 'ß', '一', 'あ', '😀'] {
            assert!(text.contains(character), "{character}");
        }
        assert_eq!(
            told("abc", "axc", None),
            "3 of 3 characters arrived; number 2 is U+0078 instead of U+0062"
        );
        assert!(told("abc", "", Some(0)).ends_with("after 0 another window had the keyboard"));
        assert_eq!(right("abc", "axc"), 2);
    }
}
