//! A PostgreSQL server of a test: in a temporary folder, on a Unix socket, as a user without privileges.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{Capability, Skip};

/// Where Debian installs the programs of each version.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// Parent of the folders. The path of a socket has at most 107 bytes, and `TMPDIR` may be long or private.
const PARENT: &str = "/tmp";
/// The usual port.
const PORT: u16 = 5432;
/// `nobody`: PostgreSQL refuses to run as root.
const USER: u32 = 65534;
/// Longest start of a server on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Number of the next folder or database of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A server, which ends when it is dropped, unless another process started it.
#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    /// Of TCP, and in the name of the socket.
    port: u16,
    /// Arguments beside the usual ones.
    options: Vec<String>,
    server: Option<Child>,
    is_owner: bool,
}

impl PostgresServer {
    /// Variable with the folder of the server on which a run of a test program has its stores.
    pub const VARIABLE: &str = "HOTDESK_TEST_POSTGRES";
    /// Password of the only user, `hotdesk`.
    pub const PASSWORD: &str = "correct-horse-battery";

    /// Starts an empty server.
    ///
    /// # Errors
    /// A skip where PostgreSQL is not installed.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn start() -> Result<Self, Skip> {
        let mut server = Self::prepare()?;
        server.resume();
        Ok(server)
    }

    /// Starts an empty server that also listens on a TCP port of `localhost`, with TLS. [`Self::ca_file`] has the authority
    /// of its certificate.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    ///
    /// # Panics
    /// When the server does not start, or openssl fails.
    pub fn start_with_tls() -> Result<Self, Skip> {
        let mut server = Self::prepare()?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        server.port = free.expect("a free port").port();
        let certify = |name: &str, arguments: &[&str]| {
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
            openssl.args([
                "-nodes",
                "-days",
                "2",
                "-keyout",
                &format!("{name}.key"),
                "-out",
                &format!("{name}.pem"),
            ]);
            let made = openssl.args(arguments).current_dir(&server.folder).output().expect("openssl starts");
            assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        };
        certify("ca", &["-subj", "/CN=authority of tests"]);
        let names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
        let signed = ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca.key"];
        certify("server", &[names.as_slice(), signed.as_slice()].concat());
        let key = server.folder.join("server.key");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a private key");
        let certificate = server.folder.join("server.pem");
        give_away(&[&key, &certificate]);
        server.options = vec![
            "listen_addresses=localhost".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", certificate.display()),
            format!("ssl_key_file={}", key.display()),
        ];
        server.resume();
        Ok(server)
    }

    /// Makes the folder of a server with its first database.
    fn prepare() -> Result<Self, Skip> {
        let Some(programs) = programs() else {
            let reason = format!("no PostgreSQL server below {PROGRAMS}: install the package postgresql");
            return Err(Skip::new(Capability::Postgres, reason));
        };
        let folder = Path::new(PARENT).join(format!("hotdesk-postgres-{}-{}", std::process::id(), next()));
        fs::DirBuilder::new().mode(0o700).create(&folder).expect("a folder for the server");
        let password = folder.join("password");
        fs::write(&password, Self::PASSWORD).expect("the password is written");
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).expect("a private password");
        give_away(&[&folder, &password]);
        let made = unprivileged(&programs.join("initdb"))
            .args([
                "--username=hotdesk",
                "--auth=scram-sha-256",
                "--locale=C",
                "--encoding=UTF8",
                "--no-sync",
            ])
            .arg(format!("--pwfile={}", password.display()))
            .arg("-D")
            .arg(folder.join("data"))
            .current_dir(&folder)
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let options = vec!["listen_addresses=".to_owned()];
        Ok(Self { folder, port: PORT, options, server: None, is_owner: true })
    }

    /// The server of this run, if its process was given one.
    pub fn of_this_run() -> Option<Self> {
        let folder = std::env::var_os(Self::VARIABLE)?;
        let folder = PathBuf::from(folder);
        Some(Self { folder, port: PORT, options: Vec::new(), server: None, is_owner: false })
    }

    /// Its folder, the value of [`Self::VARIABLE`].
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The certificate of the authority, of a server with TLS.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The port of a server with TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file with the password, mode 0600.
    pub fn password_file(&self) -> PathBuf {
        self.folder.join("password")
    }

    /// Makes an empty database and returns its URL, without the password.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn create_database(&self) -> String {
        self.create_database_with("")
    }

    /// [`Self::create_database`] with options of `CREATE DATABASE`.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn create_database_with(&self, options: &str) -> String {
        let name = format!("test_{}_{}", std::process::id(), next());
        self.sql("postgres", &format!("CREATE DATABASE {name} {options}"));
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://hotdesk@{folder}:{}/{name}", self.port)
    }

    /// Ends all sessions of a database, as the death of their processes does.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn end_sessions(&self, url: &str) {
        let name = database_of(url);
        self.sql(
            "postgres",
            &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"),
        );
    }

    /// A program of PostgreSQL that works on a database, such as `pg_dump`.
    ///
    /// # Panics
    /// When PostgreSQL is not installed.
    pub fn program(&self, name: &str, url: &str) -> Command {
        let mut command = Command::new(programs().expect("PostgreSQL is installed").join(name));
        command
            .args(["-U", "hotdesk", "-d", database_of(url), "-p", &self.port.to_string(), "-h"])
            .arg(&self.folder);
        command.env("PGPASSWORD", Self::PASSWORD).stdin(Stdio::null());
        command
    }

    /// A URL with the password, for connections of tests.
    pub fn with_password(url: &str) -> String {
        format!("{url}?password={}", Self::PASSWORD)
    }

    /// Runs a statement, and returns its rows as lines.
    ///
    /// # Panics
    /// When it fails.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let done = self.psql(database, statement).output().expect("psql starts");
        assert!(done.status.success(), "{statement}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// Kills the server without a checkpoint, like a crash (PostgreSQL manual, "immediate shutdown").
    ///
    /// # Panics
    /// When it does not run, or another process started it.
    pub fn crash(&mut self) {
        let mut server = self.server.take().expect("a running server of this process");
        end(&mut server);
    }

    /// Starts the server again, with what it has stored.
    ///
    /// # Panics
    /// When it does not start.
    pub fn resume(&mut self) {
        let programs = programs().expect("PostgreSQL is installed");
        let log = self.folder.join("log");
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let server = unprivileged(&programs.join("postgres"))
            .arg("-D")
            .arg(self.folder.join("data"))
            .arg("-k")
            .arg(&self.folder)
            // Tests crash processes, not the machine.
            .args(["-c", "max_connections=200", "-c", "fsync=off", "-c", &format!("port={}", self.port)])
            .args(self.options.iter().flat_map(|option| ["-c", option.as_str()]))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.server = Some(server.expect("the server starts"));
        let began = Instant::now();
        while !self.psql("postgres", "SELECT 1").output().expect("psql starts").status.success() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < START_TIMEOUT, "the server does not answer: {}", log());
            std::thread::sleep(PAUSE);
        }
    }

    fn psql(&self, database: &str, statement: &str) -> Command {
        let mut command = Command::new(programs().expect("PostgreSQL is installed").join("psql"));
        command.args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "hotdesk",
            "-d",
            database,
            "-c",
            statement,
        ]);
        command
            .args(["-p", &self.port.to_string(), "-h"])
            .arg(&self.folder)
            .env("PGPASSWORD", Self::PASSWORD)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            end(server);
        }
        if self.is_owner {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The name of a URL's database.
fn database_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

fn end(server: &mut Child) {
    let _ = Command::new("kill").args(["-QUIT", &server.id().to_string()]).status();
    let _ = server.wait();
}

fn next() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Gives files of root to the server's user.
fn give_away(paths: &[&PathBuf]) {
    for path in paths.iter().filter(|_| is_root()) {
        chown(path, Some(USER), Some(USER)).expect("root gives a file away");
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Folder of the programs of the newest version that is installed with its server.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(PROGRAMS).ok()?.flatten().map(|entry| entry.path().join("bin"));
    let number = |programs: &PathBuf| -> u32 {
        let name = programs.parent().and_then(Path::file_name).unwrap_or_default();
        name.to_string_lossy().parse().unwrap_or_default()
    };
    versions.filter(|programs| programs.join("postgres").is_file()).max_by_key(number)
}

/// A program that runs as another user than root, and ends when this thread ends without a chance to end it.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        let user = USER.to_string();
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    }
    command.args(["--pdeathsig", "QUIT"]).arg(program);
    // A signal of the terminal is for the tests alone.
    command.process_group(0);
    command
}
