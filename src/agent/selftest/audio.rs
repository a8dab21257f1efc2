//! Is what a program plays heard? A tone into the virtual speaker, recorded from what the speaker would sound.

use std::f64::consts::TAU;
use std::path::Path;
use std::time::Instant;

use super::Stage;
use super::bash::short;
use super::finding::{Found, Measured, failed, installed, millis, skipped, variable};
use crate::exec::bash;
use crate::files::blocking;
use hotdesk_domain::error::Error;
use hotdesk_wire::exec::Bash;

/// Where the sound server is.
const SERVER: &str = "PULSE_SERVER";
/// Samples a second.
const RATE: f64 = 48_000.0;
/// The tone, in cycles a second: no multiple of the mains' or of a musical A.
const TONE: f64 = 997.0;
/// How long it sounds, in samples: 0.3 s.
const SAMPLES: usize = 14_400;
/// How loud it is, of the most that a sample holds.
const LOUDNESS: f64 = 0.5;
/// How much of that must be heard: anything between may be turned down a little, silence and noise are far below.
const LEAST: f64 = 0.5;
/// Most bytes of the recording that are read: 5 s.
const MOST: u64 = 480_000;
/// Seconds that playing and recording may take.
const SECONDS: f64 = 5.0;
/// Records until the tone was played: the recorder has begun once it has written something. The session's virtual
/// speaker is its default one.
const SCRIPT: &str = r#"
form=(--raw --format=s16le --rate=48000 --channels=1 --latency-msec=20)
parec "${form[@]}" --device=@DEFAULT_MONITOR@ >heard & recorder=$!
for ((look = 0; look < 100; look++)); do
    [ -s heard ] && break
    kill -0 "$recorder" 2>/dev/null || exit 3
    sleep 0.02
done
[ -s heard ] || { echo "nothing is recorded" >&2; kill "$recorder"; exit 4; }
pacat --playback "${form[@]}" --device=@DEFAULT_SINK@ <tone || { kill "$recorder"; exit 5; }
sleep 0.1
kill "$recorder"
wait "$recorder"
exit 0
"#;

pub(super) async fn check(stage: &Stage) -> Found {
    let environment = stage.agent.desktop.environment(None)?;
    let Some(server) = variable(&environment, SERVER) else {
        return skipped(format!("no sound server: {SERVER} is not known"));
    };
    for program in ["pulseaudio", "pacat", "parec"] {
        if !installed(program) {
            return skipped(format!("{program} is not installed"));
        }
    }
    let folder = stage.folder.clone();
    blocking(move || {
        let written =
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("tone"), tone()));
        written.map_err(|error| Error::internal(&error))
    })
    .await?;
    let cwd = Some(stage.folder.to_string_lossy().into_owned());
    let env = Some([(SERVER.to_owned(), server)].into());
    let request = Bash { command: SCRIPT.to_owned(), cwd, env, timeout: Some(SECONDS), ..Bash::default() };
    let began = Instant::now();
    let ran = bash::run(&stage.agent.commands, request).await?;
    let took = began.elapsed();
    if ran.exit_code != 0 {
        return failed(format!("the tone was not played and recorded: {}", short(ran.output.trim())));
    }
    let heard = stage.folder.join("heard");
    let heard = blocking(move || recording(&heard)).await?;
    let level = heard.chunks(SAMPLES / 4).map(level).fold(0.0, f64::max);
    Measured::new("a tone that was played into the speaker was heard")
        .with("played_level", LOUDNESS)
        .with("heard_level", level)
        .with("took_ms", millis(took))
        .only_if(level >= LOUDNESS * LEAST, || {
            format!("the tone was not heard: its level is {level:.3}, not {LOUDNESS}")
        })
}

/// The tone as 16-bit samples.
fn tone() -> Vec<u8> {
    let sample = |at: usize| (LOUDNESS * f64::from(i16::MAX) * (TAU * TONE * at as f64 / RATE).sin()) as i16;
    (0..SAMPLES).flat_map(|at| sample(at).to_le_bytes()).collect()
}

fn recording(path: &Path) -> Result<Vec<f64>, Error> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
    read.map_err(|error| Error::internal(&error))?;
    let (samples, _) = bytes.as_chunks();
    Ok(samples.iter().map(|two| f64::from(i16::from_le_bytes(*two)) / f64::from(i16::MAX)).collect())
}

/// How loud the tone is in some samples: their part at its frequency, whatever its phase.
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
    fn the_tone_is_told_from_silence_and_from_other_sounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heard");
        std::fs::write(&path, [vec![0; 1000], tone(), vec![0]].concat()).unwrap();
        let heard = recording(&path).unwrap();
        assert_eq!(heard.len(), 500 + SAMPLES);
        assert!((level(&heard[500..]) - LOUDNESS).abs() < 0.01);
        assert!(level(&vec![0.0; SAMPLES]) < 0.001 && level(&[]) == 0.0);
        let other: Vec<f64> = (0..SAMPLES).map(|at| (TAU * 440.0 * at as f64 / RATE).sin()).collect();
        assert!(level(&other) < 0.01);
    }
}
