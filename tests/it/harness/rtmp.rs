//! RTMP server that records its streams: nginx with its rtmp module, an independent implementation.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::Value;
use tempfile::TempDir;

use super::network::TestNetwork;
use super::process::{OwnedChild, end};
use crate::harness::capability::Capability;
use crate::harness::ports::free_port;

const MODULE: &str = "/usr/lib/nginx/modules/ngx_rtmp_module.so";
/// Module that terminates TLS, which the rtmp module cannot.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";
/// Longest time until the server listens, and until it has written a recording.
const TIMEOUT: Duration = Duration::from_secs(20);

pub struct RtmpServer {
    child: OwnedChild,
    folder: TempDir,
    pub address: Ipv4Addr,
    pub port: u16,
}

impl RtmpServer {
    /// A server on the host's loopback. Without nginx, prints the reason and returns `None`.
    pub async fn here() -> Option<Self> {
        let spawn = |mut command: Command| command.spawn().expect("nginx");
        let server = Self::start(Ipv4Addr::LOCALHOST, free_port(), spawn)?;
        server.until_it_listens(|server| TcpStream::connect((server.address, server.port)).is_ok()).await;
        Some(server)
    }

    /// A server at the public address of a test network.
    pub async fn in_network(network: &TestNetwork) -> Option<Self> {
        let spawn = |mut command: Command| network.inside(|| command.spawn().expect("nginx"));
        let server = Self::start(network.public, 1935, spawn)?;
        server.until_it_listens(|server| TcpStream::connect((server.address, server.port)).is_ok()).await;
        Some(server)
    }

    fn start(
        address: Ipv4Addr,
        port: u16,
        spawn: impl FnOnce(Command) -> std::process::Child,
    ) -> Option<Self> {
        if !Path::new("/usr/sbin/nginx").exists() || !Path::new(MODULE).exists() {
            Capability::Rtmp.skip("no nginx with its rtmp module (make deps-test)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        let (mut module, mut tls) = (String::new(), String::new());
        if !address.is_loopback() && Path::new(STREAM_MODULE).exists() {
            certify(folder.path(), address);
            module = format!("load_module {STREAM_MODULE};");
            tls = format!(
                "stream {{ server {{ listen {address}:443 ssl; proxy_pass {address}:{port};\n\
                   ssl_certificate {at}/certificate.pem; ssl_certificate_key {at}/key.pem; }} }}\n"
            );
        }
        let configuration = format!(
            "daemon off; master_process off; user root; pid {at}/pid; error_log {at}/log info;\n\
             load_module {MODULE}; {module}\n\
             events {{ worker_connections 64; }}\n\
             rtmp {{ server {{ listen {address}:{port};\n\
               application live {{ live on; record all; record_path {at}; record_suffix .flv; record_unique on; }}\n\
               application live/instance {{ live on; record all; record_path {at}; record_suffix .flv; record_unique on; }}
\
               application closed {{ live on; deny publish all; }}\n\
             }} }}\n{tls}"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, configuration).expect("a configuration");
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-c").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Self { child: OwnedChild(spawn(command)), folder, address, port })
    }

    async fn until_it_listens(&self, listens: impl Fn(&Self) -> bool) {
        let found = wait::until(TIMEOUT, || async { listens(self).then_some(()) });
        found.await.unwrap_or_else(|| panic!("nginx does not listen: {}", self.log()));
    }

    /// `rtmp://ADDRESS:PORT/APP`.
    pub fn url(&self, app: &str) -> String {
        format!("rtmp://{}:{}/{app}", self.address, self.port)
    }

    /// The self-signed certificate of port 443, if the server has TLS.
    pub fn certificate(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("certificate.pem")).ok()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        self.child.0.kill().expect("nginx runs");
        self.child.0.wait().expect("nginx ends");
    }

    /// The recordings, oldest first.
    pub fn recorded(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the folder").flatten();
        let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        all.retain(|path| path.extension().is_some_and(|extension| extension == "flv"));
        all.sort_by_key(|path| path.metadata().and_then(|facts| facts.created()).ok());
        all
    }

    /// Waits until the newest recording has at least `bytes` bytes.
    pub async fn received(&self, bytes: u64) -> PathBuf {
        let found = wait::until(TIMEOUT, || async {
            let last = self.recorded().pop()?;
            (last.metadata().ok()?.len() >= bytes).then_some(last)
        });
        found.await.unwrap_or_else(|| panic!("no recording of that size: {}", self.log()))
    }
}

impl Drop for RtmpServer {
    fn drop(&mut self) {
        end(&mut self.child.0);
    }
}

/// Makes a self-signed certificate for an address.
fn certify(folder: &Path, address: Ipv4Addr) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]);
    openssl.args(["-addext", &format!("subjectAltName=IP:{address}"), "-keyout"]).arg(folder.join("key.pem"));
    let ran = openssl.arg("-out").arg(folder.join("certificate.pem")).output().expect("openssl");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

fn output(program: &str, arguments: &[&str], file: &Path) -> Vec<u8> {
    let (before, after) =
        arguments.split_at(arguments.iter().position(|part| *part == "FILE").expect("a place"));
    let ran = Command::new(program).args(before).arg(file).args(&after[1..]).output().expect(program);
    assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

/// The sorted codec names and the width and height of the video, from ffprobe.
pub fn probe(file: &Path) -> (Vec<String>, u64, u64) {
    let probed = output("ffprobe", &["-v", "error", "-show_streams", "-of", "json", "FILE"], file);
    let probed: Value = serde_json::from_slice(&probed).expect("JSON");
    let streams = probed["streams"].as_array().expect("streams");
    let mut codecs: Vec<String> =
        streams.iter().map(|stream| stream["codec_name"].as_str().unwrap_or_default().to_owned()).collect();
    codecs.sort();
    let video = streams.iter().find(|stream| stream["codec_type"] == "video").expect("pictures");
    (codecs, video["width"].as_u64().expect("a width"), video["height"].as_u64().expect("a height"))
}

/// The mean colour of an area `WIDTH:HEIGHT:X:Y` in every frame.
pub fn colours(file: &Path, area: &str) -> Vec<[u8; 3]> {
    let filter = format!("crop={area},scale=1:1");
    let format = ["-vf", &filter, "-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"];
    let pixels = output("ffmpeg", &[&["-v", "error", "-i", "FILE"], &format[..]].concat(), file);
    pixels.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
}

/// Peak amplitude of a tone of `tone` Hz over windows of 0.1 s; 1.0 is full scale.
pub fn loudness(file: &Path, tone: f64) -> f64 {
    let format = ["-vn", "-f", "s16le", "-ac", "1", "-ar", "48000", "pipe:1"];
    let sound = output("ffmpeg", &[&["-v", "error", "-i", "FILE"], &format[..]].concat(), file);
    let samples: Vec<f64> =
        sound.chunks_exact(2).map(|two| f64::from(i16::from_le_bytes([two[0], two[1]])) / 32768.0).collect();
    let level = |part: &[f64]| {
        let (mut cosine, mut sine) = (0.0, 0.0);
        for (at, sample) in part.iter().enumerate() {
            let angle = std::f64::consts::TAU * tone * at as f64 / 48_000.0;
            cosine += sample * angle.cos();
            sine += sample * angle.sin();
        }
        2.0 * f64::hypot(cosine, sine) / part.len() as f64
    };
    samples.chunks(4800).map(level).fold(0.0, f64::max)
}

/// A tone of `cycles` Hz at half amplitude: signed 16 bits, 48 kHz, mono.
pub fn tone(cycles: f64, seconds: f64) -> Vec<u8> {
    let sample = |at: usize| {
        let angle = std::f64::consts::TAU * cycles * at as f64 / 48_000.0;
        (16_384.0 * angle.sin()) as i16
    };
    (0..(seconds * 48_000.0) as usize).flat_map(|at| sample(at).to_le_bytes()).collect()
}
