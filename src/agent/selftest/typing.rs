//! Self-test of typing: each character arrives, in any script.

use std::time::{Duration, Instant};

use super::outcome::{CheckResult, Measurement};
use super::screen::TestScreen;
use hotdesk_base::wait;

/// Characters of each kind, as first character, range and number: most are on a keyboard, the others need
/// temporary keys.
const SCRIPTS: [(char, u32, usize); 5] = [
    // ASCII from `!`, Latin-1 from `À`, Chinese, kana, emoji.
    ('!', 90, 90),
    ('À', 62, 50),
    ('一', 400, 30),
    ('あ', 60, 15),
    ('😀', 60, 15),
];
/// Timeout for the delivery of the last character.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(6);

pub(super) async fn check(target: &TestScreen) -> CheckResult {
    let text = test_text();
    let count = text.chars().count();
    target.window.forget_keys();
    let began = Instant::now();
    let typed = target.screen.type_text(&text, false).await?;
    let took = began.elapsed();
    let arrived = wait::until(ARRIVAL_TIMEOUT, || async {
        (target.window.text().chars().count() >= count).then_some(())
    });
    arrived.await;
    let got = target.window.text();
    Measurement::new("ASCII, Latin-1, Chinese, kana and emoji were delivered as typed")
        .with("sent", count as f64)
        .with("right", count_right(&text, &got) as f64)
        .with("characters_per_s", count as f64 / took.as_secs_f64().max(0.001))
        .pass_if(got == text, || describe_failure(&text, &got, typed.value.focus_changed_at))
}

/// Returns 200 different characters, script after script.
fn test_text() -> String {
    let of_script = |(first, range, count): (char, u32, usize)| {
        // 7 divides no range, so all characters differ; and neighbours in the text are no neighbours on the
        // keyboard.
        (0..count as u32).filter_map(move |step| char::from_u32(u32::from(first) + step * 7 % range))
    };
    SCRIPTS.into_iter().flat_map(of_script).collect()
}

/// Returns the number of characters at their right position.
fn count_right(sent: &str, got: &str) -> usize {
    sent.chars().zip(got.chars()).filter(|(sent, got)| sent == got).count()
}

/// Describes the first difference in a sentence.
fn describe_failure(sent: &str, got: &str, focus_changed_at: Option<usize>) -> String {
    let (count, arrived) = (sent.chars().count(), got.chars().count());
    let first = sent.chars().zip(got.chars()).enumerate().find(|(_, (sent, got))| sent != got);
    let mut description = format!("{arrived} of {count} characters arrived");
    if let Some((at, (sent, got))) = first {
        let (sent, got) = (u32::from(sent), u32::from(got));
        description += &format!("; number {} is U+{got:04X} instead of U+{sent:04X}", at + 1);
    }
    if let Some(at) = focus_changed_at {
        description += &format!("; after {at} characters another window had the keyboard focus");
    }
    description
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_every_script_and_a_failure_names_its_position() {
        let text = test_text();
        assert_eq!(text.chars().count(), 200);
        for character in ['!', 'x', 'ü', 'ß', '一', 'あ', '😀'] {
            assert!(text.contains(character), "{character}");
        }
        assert_eq!(
            describe_failure("abc", "axc", None),
            "3 of 3 characters arrived; number 2 is U+0078 instead of U+0062"
        );
        assert!(
            describe_failure("abc", "", Some(0))
                .ends_with("after 0 characters another window had the keyboard focus")
        );
        assert_eq!(count_right("abc", "axc"), 2);
    }
}
