//! Small S3 server for tests, over real HTTP, whose next answers can be planned.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::Url;
use sha2::{Digest, Sha256};

/// Entries of one page of a list.
const PAGE_ENTRIES: usize = 2;

/// Answer to a request instead of the right one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlannedAnswer {
    /// The right answer.
    Pass,
    /// A status and a body.
    Status(u16, &'static str),
    /// The connection is closed without an answer.
    Closed,
    /// The connection is closed within the body.
    Cut,
    /// No answer until the client closes the connection.
    Silence,
}

/// A request as the server got it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    method: String,
    url: Url,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl ReceivedRequest {
    /// Value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn parameter(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
    }
}

#[derive(Default)]
struct ServerState {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    planned: Mutex<VecDeque<PlannedAnswer>>,
    requests: Mutex<Vec<ReceivedRequest>>,
}

/// A server with one bucket, on a free port of this machine, until the end of the process.
pub(crate) struct TestServer {
    /// Address of the server, `http://HOST:PORT`.
    pub(crate) origin: String,
    state: Arc<ServerState>,
}

impl TestServer {
    /// Name of the bucket.
    pub(crate) const BUCKET: &'static str = "test-bucket";

    /// Starts a server with an empty bucket.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(ServerState::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A client that goes away ends its connection alone.
                std::thread::spawn(move || drop(serve(connection, &state)));
            }
        });
        Self { origin, state }
    }

    /// Plans the next answers.
    pub(crate) fn plan(&self, answers: Vec<PlannedAnswer>) {
        self.state.planned.lock().unwrap().extend(answers);
    }

    /// Returns the requests since the last call, in the order in which they came.
    pub(crate) fn take_requests(&self) -> Vec<ReceivedRequest> {
        self.state.requests.lock().map(|mut requests| std::mem::take(&mut *requests)).unwrap()
    }

    /// Names of all objects, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state.objects.lock().unwrap().keys().cloned().collect()
    }
}

/// Answers one request and closes the connection.
fn serve(mut connection: TcpStream, state: &ServerState) -> io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let request = receive(&mut reader)?;
    state.requests.lock().unwrap().push(request.clone());
    let planned = state.planned.lock().unwrap().pop_front().unwrap_or(PlannedAnswer::Pass);
    match planned {
        PlannedAnswer::Pass => {
            let (status, body) = answer(&request, state);
            send(&mut connection, status, body.len(), &body)
        }
        PlannedAnswer::Status(status, body) => send(&mut connection, status, body.len(), body.as_bytes()),
        PlannedAnswer::Closed => Ok(()),
        PlannedAnswer::Cut => send(&mut connection, 200, 5, b"hel"),
        PlannedAnswer::Silence => reader.read_to_end(&mut Vec::new()).map(drop),
    }
}

fn send(connection: &mut TcpStream, status: u16, length: usize, body: &[u8]) -> io::Result<()> {
    write!(connection, "HTTP/1.1 {status} X\r\nConnection: close\r\nLocation: /\r\n")?;
    // An answer with status 204 has no length.
    if status != 204 {
        write!(connection, "Content-Length: {length}\r\n")?;
    }
    connection.write_all(b"\r\n")?;
    connection.write_all(body)
}

fn receive(reader: &mut impl BufRead) -> io::Result<ReceivedRequest> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines[0].split(' ').map(str::to_owned);
    let method = words.next().unwrap();
    let url = Url::parse(&format!("http://server{}", words.next().unwrap())).unwrap();
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body)?;
    Ok(ReceivedRequest { method, url, headers, body })
}

/// The right answer to a request: status and body.
fn answer(request: &ReceivedRequest, state: &ServerState) -> (u16, Vec<u8>) {
    let error = |status, code: &str| (status, format!("<Error><Code>{code}</Code></Error>").into_bytes());
    if request.parameter("X-Amz-Signature").is_none() {
        return error(403, "AccessDenied");
    }
    let Some(path) = request.url.path().strip_prefix(&format!("/{}/", TestServer::BUCKET)) else {
        return error(404, "NoSuchBucket");
    };
    let name = path.to_owned();
    let mut objects = state.objects.lock().unwrap();
    match request.method.as_str() {
        "GET" if name.is_empty() => (200, list(request, &objects).into_bytes()),
        "GET" => match objects.get(&name) {
            Some(object) => (200, object.clone()),
            None => error(404, "NoSuchKey"),
        },
        "PUT" => {
            let checksum = BASE64_STANDARD.encode(Sha256::digest(&request.body));
            if request.header("x-amz-checksum-sha256") != Some(checksum.as_str()) {
                return error(400, "BadDigest");
            }
            objects.insert(name, request.body.clone());
            (200, Vec::new())
        }
        "DELETE" => {
            objects.remove(&name);
            (204, Vec::new())
        }
        _ => error(405, "MethodNotAllowed"),
    }
}

/// One page of a list. The token is the number of the entries before it, and signs that URLs escape.
fn list(request: &ReceivedRequest, objects: &BTreeMap<String, Vec<u8>>) -> String {
    let prefix = request.parameter("prefix").unwrap_or_default();
    let delimiter = request.parameter("delimiter");
    let mut entries = BTreeSet::new();
    for name in objects.keys() {
        let Some(rest) = name.strip_prefix(&prefix) else { continue };
        let common = delimiter.as_ref().and_then(|delimiter| rest.split_once(delimiter.as_str()));
        entries.insert(match common {
            Some((first, _)) => {
                format!("<CommonPrefixes><Prefix>{prefix}{first}/</Prefix></CommonPrefixes>")
            }
            None => format!("<Contents><Key>{name}</Key></Contents>"),
        });
    }
    let token = request.parameter("continuation-token");
    let start: usize = token.map_or(0, |token| token.strip_suffix("+/=").unwrap().parse().unwrap());
    let end = start + PAGE_ENTRIES;
    let page: String = entries.iter().skip(start).take(PAGE_ENTRIES).map(String::as_str).collect();
    let next = if end < entries.len() {
        format!("<NextContinuationToken>{end}+/=</NextContinuationToken>")
    } else {
        String::new()
    };
    format!(
        "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Name>{}</Name><Prefix>{prefix}</Prefix>{page}{next}</ListBucketResult>",
        TestServer::BUCKET
    )
}
