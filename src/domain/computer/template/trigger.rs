//! Triggers of a template: how often their actions run, when a metric crosses a value, and texts with fields of an event.
//!
//! ```text
//! event --> hard limit --> debounce | cooldown | rate limit --> run, hold until, or drop
//! ```
//! The time is a parameter, so that the rules need no clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::fault::{Fault, RuleResult};
use super::timing;

/// Most runs of a trigger within [`HARD_WINDOW`], whatever its rule: a trigger that sets itself off must not use up the
/// computer.
pub const HARD_LIMIT: usize = 60;
/// Time in which they count.
pub const HARD_WINDOW: Duration = Duration::from_secs(60);
/// Shortest time between two looks at a source that is polled.
pub const MIN_POLL: Duration = Duration::from_secs(1);
/// Time between two requests of an `http` source without `interval`.
pub const DEFAULT_HTTP_INTERVAL: Duration = Duration::from_secs(60);
/// Longest command of an action without `timeout`: that of a hook.
pub const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(600);
/// Events of the computer, for the source `event`.
pub const COMPUTER_EVENTS: [&str; 4] = ["boot", "resume", "unhealthy", "healthy"];
/// Metrics of the computer in percent, for the source `metric`.
pub const METRICS: [&str; 3] = ["cpu", "memory", "disk"];

/// Checks the name of a metric.
///
/// # Errors
/// `InvalidEnum` for one that is not in [`METRICS`].
pub fn metric(name: &str) -> RuleResult<String> {
    if METRICS.contains(&name) { Ok(name.to_owned()) } else { Err(Fault::none_of(name, &METRICS)) }
}

/// Checks the name of an event of the computer.
///
/// # Errors
/// `InvalidEnum` for one that is not in [`COMPUTER_EVENTS`].
pub fn computer_event(name: &str) -> RuleResult<String> {
    if COMPUTER_EVENTS.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(Fault::none_of(name, &COMPUTER_EVENTS))
    }
}

/// How often the actions run at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupRule {
    /// For each event.
    Each,
    /// Once, after no event came for this time.
    Debounce(Duration),
    /// Once in this time; other events are dropped.
    Cooldown(Duration),
    /// This often in this time; other events are dropped.
    RateLimit(usize, Duration),
}

/// Decision about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDecision {
    /// The actions run now.
    Run,
    /// They run at this time, with the last event, unless another one comes before.
    Hold(Duration),
    /// The event is dropped.
    Drop,
}

/// A rule with what it remembers. Times are those since the start of the trigger.
#[derive(Clone, Debug)]
pub struct RunLimiter {
    rule: DedupRule,
    /// Runs within the longer of the rule's window and [`HARD_WINDOW`].
    runs: VecDeque<Duration>,
    /// When an event that is held is due.
    due: Option<Duration>,
}

impl DedupRule {
    /// Reads a rate such as `10/1m`.
    pub fn rate(text: &str) -> Option<Self> {
        let (count, window) = text.split_once('/')?;
        Some(Self::RateLimit(count.parse().ok()?, Duration::from_millis(timing::milliseconds(window)?)))
    }

    fn window(self) -> Duration {
        match self {
            Self::Each | Self::Debounce(_) => Duration::ZERO,
            Self::Cooldown(window) | Self::RateLimit(_, window) => window,
        }
    }
}

impl RunLimiter {
    /// Makes a rule without runs.
    pub fn new(rule: DedupRule) -> Self {
        Self { rule, runs: VecDeque::new(), due: None }
    }

    /// Decides on an event.
    pub fn event(&mut self, at: Duration) -> RunDecision {
        match self.rule {
            DedupRule::Debounce(quiet) => {
                let due = at + quiet;
                self.due = Some(due);
                RunDecision::Hold(due)
            }
            DedupRule::Each | DedupRule::Cooldown(_) | DedupRule::RateLimit(..) => self.run(at),
        }
    }

    /// Decides on the event that is held, when its time has come.
    pub fn due(&mut self, at: Duration) -> RunDecision {
        match self.due {
            Some(due) if due <= at => {
                self.due = None;
                self.run(at)
            }
            Some(due) => RunDecision::Hold(due),
            None => RunDecision::Drop,
        }
    }

    /// Whether the actions may run now without regard to the rule, as for a person who asks for it.
    pub fn by_hand(&mut self, at: Duration) -> bool {
        let allowed = self.within(HARD_WINDOW, at) < HARD_LIMIT;
        if allowed {
            self.runs.push_back(at);
        }
        allowed
    }

    fn run(&mut self, at: Duration) -> RunDecision {
        let longest = self.rule.window().max(HARD_WINDOW);
        self.runs.retain(|run| at.saturating_sub(*run) < longest);
        let allowed = self.within(HARD_WINDOW, at) < HARD_LIMIT
            && match self.rule {
                DedupRule::Each | DedupRule::Debounce(_) => true,
                DedupRule::Cooldown(window) => self.within(window, at) == 0,
                DedupRule::RateLimit(count, window) => self.within(window, at) < count,
            };
        if !allowed {
            return RunDecision::Drop;
        }
        self.runs.push_back(at);
        RunDecision::Run
    }

    /// Runs within a time.
    fn within(&self, window: Duration, at: Duration) -> usize {
        self.runs.iter().filter(|run| at.saturating_sub(**run) < window).count()
    }
}

/// Notices that a condition holds for some time. It is noticed once, until the condition does not hold.
#[derive(Clone, Debug, Default)]
pub struct ThresholdWatch {
    since: Option<Duration>,
    is_noticed: bool,
}

impl ThresholdWatch {
    /// Records whether the condition holds. Returns true when it has held for `least`, for the first time.
    pub fn record(&mut self, holds: bool, at: Duration, least: Duration) -> bool {
        if !holds {
            *self = Self::default();
            return false;
        }
        let since = *self.since.get_or_insert(at);
        let is_new = !self.is_noticed && at.saturating_sub(since) >= least;
        self.is_noticed |= is_new;
        is_new
    }
}

/// Replaces the references of a text to fields of an event, such as `{{ event.path }}`. `value` returns the text for a
/// path such as `path` or `data.title`. Other braces stay. Returns `None` when the result would have more than `most` bytes:
/// a short text may repeat a long value many times.
pub fn render(text: &str, most: usize, mut value: impl FnMut(&str) -> String) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut rendered = String::new();
    let add = |part: &str, rendered: &mut String| {
        let fits = rendered.len() + part.len() <= most;
        fits.then(|| rendered.push_str(part))
    };
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        let (before, tail) = rest.split_at(at);
        add(before, &mut rendered)?;
        let inside = tail[2..].trim_start();
        let end = inside.find(|c: char| !is_word(c)).unwrap_or(inside.len());
        let (path, behind) = inside.split_at(end);
        match (path.strip_prefix("event."), behind.trim_start().strip_prefix("}}")) {
            (Some(path), Some(behind)) => {
                add(&value(path), &mut rendered)?;
                rest = behind;
            }
            _ => {
                add("{{", &mut rendered)?;
                rest = &tail[2..];
            }
        }
    }
    add(rest, &mut rendered)?;
    Some(rendered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Seconds at which actions run, for events at these seconds and a look at each second until `end`.
    fn runs(rule: DedupRule, events: &[u64], end: u64) -> Vec<u64> {
        let mut dedup = RunLimiter::new(rule);
        let mut runs = Vec::new();
        for second in 0..=end {
            // A held event is looked at before the events of its moment.
            if matches!(dedup.due(s(second)), RunDecision::Run) {
                runs.push(second);
            }
            for _ in events.iter().filter(|event| **event == second) {
                if dedup.event(s(second)) == RunDecision::Run {
                    runs.push(second);
                }
            }
        }
        runs
    }

    #[test]
    fn each_rule_runs_actions_as_often_as_it_says() {
        use DedupRule::{Cooldown, Debounce, Each, RateLimit};
        for (rule, events, expected) in [
            (Each, vec![0, 0, 1, 5], vec![0, 0, 1, 5]),
            (Debounce(s(3)), vec![0, 1, 2, 10], vec![5, 13]),
            (Debounce(s(3)), vec![0, 3, 6], vec![3, 6, 9]),
            (Debounce(s(3)), vec![], vec![]),
            (Cooldown(s(5)), vec![0, 1, 4, 5, 9, 10], vec![0, 5, 10]),
            (RateLimit(2, s(10)), vec![0, 1, 2, 9, 10, 11, 12], vec![0, 1, 10, 11]),
            (RateLimit(1, s(1)), vec![0, 0, 1, 1], vec![0, 1]),
        ] {
            assert_eq!(runs(rule, &events, 20), expected, "{rule:?} {events:?}");
        }
    }

    #[test]
    fn a_held_event_runs_once_and_not_before_its_time() {
        let mut dedup = RunLimiter::new(DedupRule::Debounce(s(3)));
        assert_eq!(dedup.due(s(0)), RunDecision::Drop);
        assert_eq!(dedup.event(s(1)), RunDecision::Hold(s(4)));
        assert_eq!(dedup.due(s(3)), RunDecision::Hold(s(4)));
        assert_eq!(dedup.event(s(3)), RunDecision::Hold(s(6)));
        assert_eq!(dedup.due(s(7)), RunDecision::Run);
        assert_eq!(dedup.due(s(8)), RunDecision::Drop);
    }

    #[test]
    fn no_rule_exceeds_the_hard_limit() {
        let burst = vec![0; HARD_LIMIT + 9];
        assert_eq!(runs(DedupRule::Each, &burst, 0).len(), HARD_LIMIT);
        assert_eq!(runs(DedupRule::RateLimit(9999, s(3600)), &burst, 0).len(), HARD_LIMIT);
        let later = [burst, vec![60]].concat();
        assert_eq!(runs(DedupRule::Each, &later, 60).len(), HARD_LIMIT + 1);
        let mut dedup = RunLimiter::new(DedupRule::Cooldown(s(3600)));
        let by_hand = (0..HARD_LIMIT + 5).filter(|_| dedup.by_hand(s(0))).count();
        assert_eq!(by_hand, HARD_LIMIT);
        assert!(dedup.by_hand(s(60)));
    }

    #[test]
    fn rates_are_read() {
        assert_eq!(DedupRule::rate("10/1m"), Some(DedupRule::RateLimit(10, s(60))));
        for bad in ["", "10", "x/1m", "10/x"] {
            assert_eq!(DedupRule::rate(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_condition_is_noticed_once_after_it_held_for_its_time() {
        let mut crossing = ThresholdWatch::default();
        let readings =
            [(0, true), (1, true), (2, true), (3, true), (4, false), (5, true), (6, false), (7, true)];
        let noticed: Vec<u64> = readings
            .into_iter()
            .filter(|(second, holds)| crossing.record(*holds, s(*second), s(2)))
            .map(|(second, _)| second)
            .collect();
        assert_eq!(noticed, [2]);
        let mut crossing = ThresholdWatch::default();
        assert!(crossing.record(true, s(0), s(0)) && !crossing.record(true, s(1), s(0)));
    }

    #[test]
    fn references_to_the_event_are_replaced_and_other_braces_stay() {
        let shown = |text: &str| render(text, 100, |path| format!("<{path}>")).unwrap();
        for (text, expected) in [
            ("", ""),
            ("a {{ event.path }} b", "a <path> b"),
            ("{{event.a.b}}{{ event.c }}", "<a.b><c>"),
            ("docker ps --format '{{.Names}}'", "docker ps --format '{{.Names}}'"),
            ("{{ {{ event.a }}", "{{ <a>"),
            ("{{ event.a", "{{ event.a"),
            ("{{ event.a }", "{{ event.a }"),
            ("{{ ä {{event.ok}}", "{{ ä <ok>"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        // What was inserted is not read again.
        let inserted = |most| render("{{ event.a }}", most, |_| "{{ event.b }}".to_owned());
        assert_eq!(inserted(13).as_deref(), Some("{{ event.b }}"));
        // The result is bounded while it is made.
        assert_eq!(inserted(12), None);
        assert_eq!(render("{{event.a}}{{event.a}}", 5, |_| "abc".to_owned()), None);
    }
}
