//! Self-test of audio: a tone is played to the virtual speaker and recorded from its monitor.

use std::f64::consts::TAU;
use std::path::Path;
use std::time::Instant;

use super::TestContext;
use super::bash::short;
use super::outcome::{CheckResult, Measurement, failed, installed, millis, skipped, variable};
use crate::exec::bash;
use crate::files::blocking;
use hotdesk_domain::error::Error;
use hotdesk_wire::desktop::bash::Bash;

/// Variable with the sound server's address.
const SERVER: &str = "PULSE_SERVER";
/// Samples per second.
const RATE: f64 = 48_000.0;
/// Frequency of the tone in Hz: not a multiple of the mains frequency or of a musical A.
const TONE: f64 = 997.0;
/// Length of the tone in samples: 0.3 s.
const SAMPLES: usize = 14_400;
/// Amplitude of the tone, relative to full scale.
const AMPLITUDE: f64 = 0.5;
/// Part of the amplitude that must be recorded: the volume may be reduced a little; silence and noise are far
/// below.
const MIN_PART: f64 = 0.5;
/// Bytes of the recording that are read: 5 s.
const MAX_BYTES: u64 = 480_000;
/// Timeout of playing and recording in seconds.
const TIMEOUT_SECONDS: f64 = 5.0;
/// Records while the tone is played: the recorder has started once it has written something. The default
/// speaker is the session's virtual one.
const SCRIPT: &str = r#"
form=(--raw --format=s16le --rate=48000 --channels=1 --latency-msec=20)
parec "${form[@]}" --device=@DEFAULT_MONITOR@ >heard & recorder=$!
for ((look = 0; look < 100; look++)); do
    [ -s heard ] && break
    kill -0 "$recorder" 2>/dev/null || exit 3
    sleep 0.02
done
[ -s heard ] || { echo "the recorder writes nothing" >&2; kill "$recorder"; exit 4; }
pacat --playback "${form[@]}" --device=@DEFAULT_SINK@ <tone || { kill "$recorder"; exit 5; }
sleep 0.1
kill "$recorder"
wait "$recorder"
exit 0
"#;

pub(super) async fn check(context: &TestContext) -> CheckResult {
    let environment = context.agent.desktop.environment(None)?;
    let Some(server) = variable(&environment, SERVER) else {
        return skipped(format!("no sound server: {SERVER} is not set"));
    };
    for program in ["pulseaudio", "pacat", "parec"] {
        if !installed(program) {
            return skipped(format!("{program} is not installed"));
        }
    }
    let folder = context.folder.clone();
    blocking(move || {
        let written =
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("tone"), tone()));
        written.map_err(|error| Error::internal(&error))
    })
    .await?;
    let cwd = Some(context.folder.to_string_lossy().into_owned());
    let env = Some([(SERVER.to_owned(), server)].into());
    let request =
        Bash { command: SCRIPT.to_owned(), cwd, env, timeout: Some(TIMEOUT_SECONDS), ..Bash::default() };
    let began = Instant::now();
    let ran = bash::run(&context.agent.commands, request).await?;
    let took = began.elapsed();
    if ran.exit_code != 0 {
        return failed(format!("a tone could not be played and recorded: {}", short(ran.output.trim())));
    }
    let path = context.folder.join("heard");
    let heard = blocking(move || read_recording(&path)).await?;
    let level = heard.chunks(SAMPLES / 4).map(level).fold(0.0, f64::max);
    Measurement::new("a tone that was played to the speaker was recorded")
        .with("played_level", AMPLITUDE)
        .with("heard_level", level)
        .with("took_ms", millis(took))
        .pass_if(level >= AMPLITUDE * MIN_PART, || {
            format!("the tone was not recorded: its level is {level:.3}, not {AMPLITUDE}")
        })
}

/// Returns the tone as 16-bit little-endian samples.
fn tone() -> Vec<u8> {
    let sample = |at: usize| (AMPLITUDE * f64::from(i16::MAX) * (TAU * TONE * at as f64 / RATE).sin()) as i16;
    (0..SAMPLES).flat_map(|at| sample(at).to_le_bytes()).collect()
}

/// Returns the recorded samples, scaled to -1..1.
fn read_recording(path: &Path) -> Result<Vec<f64>, Error> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    read.map_err(|error| Error::internal(&error))?;
    let (samples, _) = bytes.as_chunks();
    Ok(samples.iter().map(|two| f64::from(i16::from_le_bytes(*two)) / f64::from(i16::MAX)).collect())
}

/// Returns the amplitude of the samples at the tone's frequency, for any phase (a single Fourier bin).
fn level(samples: &[f64]) -> f64 {
    let (mut cosine, mut sine) = (0.0, 0.0);
    for (at, sample) in samples.iter().enumerate() {
        let angle = TAU * TONE * at as f64 / RATE;
        cosine += sample * angle.cos();
        sine += sample * angle.sin();
    }
    2.0 * f64::hypot(cosine, sine) / samples.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tone_differs_from_silence_and_other_sounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heard");
        std::fs::write(&path, [vec![0; 1000], tone(), vec![0]].concat()).unwrap();
        let heard = read_recording(&path).unwrap();
        assert_eq!(heard.len(), 500 + SAMPLES);
        assert!((level(&heard[500..]) - AMPLITUDE).abs() < 0.01);
        assert!(level(&vec![0.0; SAMPLES]) < 0.001 && level(&[]) == 0.0);
        let other: Vec<f64> = (0..SAMPLES).map(|at| (TAU * 440.0 * at as f64 / RATE).sin()).collect();
        assert!(level(&other) < 0.01);
    }
}
